// SPDX-License-Identifier: Apache-2.0
// Every combination: all choices, and `levels` numbers of a range, its ends among them; the last field fastest.
#include "d5/training/search.hpp"

namespace d5 {
namespace {

class Grid final : public SearchMethod {
 public:
  static constexpr const char* about = "every combination of choices and of levels of ranges";
  static std::vector<Parameter> parameters() { return {{"levels", "numbers of a range, its ends among them", 5}}; }

  explicit Grid(const SearchSettings& settings) : space_(settings.space) {
    const int64_t levels = settings.values.integer("levels", 5);
    if (levels < 1) throw UsageError("[search] grid: levels is {}; 1 and more are legal", levels);
    for (const Dimension& dimension : space_) {
      sizes_.push_back(dimension.choices ? dimension.choices : levels);
      if (count_ > most_trials / sizes_.back())
        throw UsageError("[search] grid: more than {} combinations; fewer levels or another method", most_trials);
      count_ *= sizes_.back();
    }
    if (settings.trials && settings.trials < count_)
      throw UsageError("[search] grid: there are {} combinations, but only {} trials are allowed", count_,
                       settings.trials);
  }

  Next next(std::span<const Trial> so_far) const override {
    auto rest = static_cast<Index>(so_far.size());
    if (rest >= count_) return {};
    Point point(space_.size());
    for (size_t d = space_.size(); d-- > 0; rest /= sizes_[d]) {
      const Index i = rest % sizes_[d];
      if (space_[d].choices)
        point[d] = coordinate_of(space_[d], i);
      else
        point[d] = sizes_[d] == 1 ? 0.5 : static_cast<double>(i) / static_cast<double>(sizes_[d] - 1);
    }
    return {Next::Kind::trial, std::move(point)};
  }

 private:
  static constexpr Index most_trials = 100000;
  std::vector<Dimension> space_;
  std::vector<Index> sizes_;
  Index count_ = 1;
};

}  // namespace
D5_REGISTER(search_methods, "grid", Grid);
}  // namespace d5
