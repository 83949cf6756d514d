// SPDX-License-Identifier: Apache-2.0
// Independent random points (Bergstra and Bengio, 2012): the base case that any cleverer method must beat.
#include "d5/training/search.hpp"

namespace d5 {
namespace {

class Random final : public SearchMethod {
 public:
  static constexpr const char* about = "independent random points (Bergstra and Bengio, 2012)";
  static std::vector<Parameter> parameters() { return {}; }

  explicit Random(const SearchSettings& settings)
      : space_(settings.space),
        count_(settings.trials ? settings.trials : 20),
        rng_(settings.seed, stream_of("search random")) {}

  Next next(std::span<const Trial> so_far) const override {
    if (static_cast<Index>(so_far.size()) >= count_) return {};
    return {Next::Kind::trial, random_point(space_, rng_, so_far.size())};
  }

 private:
  std::vector<Dimension> space_;
  Index count_;
  Rng rng_;
};

}  // namespace
D5_REGISTER(search_methods, "random", Random);
}  // namespace d5
