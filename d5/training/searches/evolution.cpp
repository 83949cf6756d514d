// SPDX-License-Identifier: Apache-2.0
// An evolution strategy with one child at a time (Rechenberg, 1973): one of the best so far, by tournament, is changed
// in one coordinate: a step of an ordered one, else another choice.
// Steps are drawn on all scales down to a tenth, so that it goes on where it is already near.
#include <algorithm>
#include <cmath>

#include "d5/training/search.hpp"

namespace d5 {
namespace {

class Evolution final : public SearchMethod {
 public:
  static constexpr const char* about = "one of the best so far is changed a little (Rechenberg, 1973)";
  static std::vector<Parameter> parameters() {
    return {{"startup", "random trials first", 8},
            {"population", "the best so many are parents", 5},
            {"tournament", "a parent is the best of so many of them", 2},
            {"step", "the largest standard deviation of a change, as a share of the range", 0.2}};
  }

  explicit Evolution(const SearchSettings& settings)
      : space_(settings.space),
        count_(settings.trials ? settings.trials : 30),
        startup_(settings.values.integer("startup", 8)),
        population_(settings.values.integer("population", 5)),
        tournament_(settings.values.integer("tournament", 2)),
        step_(settings.values.real("step", 0.2)),
        seed_(settings.seed) {
    if (startup_ < 1 || population_ < 1 || tournament_ < 1 || !(step_ > 0))
      throw UsageError("[search] evolution: startup {}, population {}, tournament {}, step {}; all are above 0",
                       startup_, population_, tournament_, step_);
  }

  Next next(std::span<const Trial> so_far) const override {
    if (static_cast<Index>(so_far.size()) >= count_) return {};
    Rng rng(seed_, stream_of("search evolution") + so_far.size());
    std::vector<const Trial*> parents;
    for (const Trial& trial : so_far)
      if (trial.cost && std::isfinite(*trial.cost)) parents.push_back(&trial);
    std::ranges::stable_sort(parents, {}, [](const Trial* trial) { return *trial->cost; });
    if (static_cast<Index>(parents.size()) > population_) parents.resize(static_cast<size_t>(population_));
    if (static_cast<Index>(so_far.size()) < startup_ || parents.empty())
      return {Next::Kind::trial, random_point(space_, rng, 0)};
    const Trial* parent = nullptr;
    for (Index i = 0; i < tournament_; ++i) {
      const Trial* drawn = parents[rng.next_below(parents.size())];
      if (!parent || *drawn->cost < *parent->cost) parent = drawn;
    }
    Point point = parent->point;
    const size_t d = rng.next_below(space_.size());
    point[d] = changed(space_[d], point[d], rng);
    return {Next::Kind::trial, std::move(point)};
  }

 private:
  double changed(const Dimension& dimension, double coordinate, Rng& rng) const {
    if (dimension.choices == 1) return coordinate;
    const uint64_t drawn = rng.next_below(uint64_t{1} << 62);
    const double step = step_ * std::pow(0.1, rng.next_uniform()) * Rng(drawn).normal(0);
    if (!dimension.choices) return std::clamp(coordinate + step, 0.0, 1.0);
    const Index before = choice_of(dimension, coordinate);
    if (!dimension.ordered) {
      const auto other = static_cast<Index>(drawn % static_cast<uint64_t>(dimension.choices - 1));
      return coordinate_of(dimension, other < before ? other : other + 1);
    }
    const double places = std::max(1.0, std::round(std::abs(step) * static_cast<double>(dimension.choices)));
    const Index after = before + static_cast<Index>(step < 0 ? -places : places);
    return coordinate_of(dimension, std::clamp<Index>(after, 0, dimension.choices - 1));
  }

  std::vector<Dimension> space_;
  Index count_, startup_, population_, tournament_;
  double step_;
  uint64_t seed_;
};

}  // namespace
D5_REGISTER(search_methods, "evolution", Evolution);
}  // namespace d5
