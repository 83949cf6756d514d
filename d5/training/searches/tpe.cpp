// SPDX-License-Identifier: Apache-2.0
// Tree-structured Parzen estimator (Bergstra et al., 2011). After a few random trials those with the least cost are the
// good ones, the others (and those under way) the bad ones. In each dimension both have a density: a sum of bells
// around their points, as wide as their neighbours are far, and a flat part; for choices, smoothed counts. Of points
// drawn from the density of the good ones, the one with the largest good(x) / bad(x) is tried next.
#include <algorithm>
#include <cmath>
#include <limits>

#include "d5/training/search.hpp"

namespace d5 {
namespace {

class Density {
 public:
  Density(const Dimension& dimension, std::vector<double> points) : dimension_(dimension), points_(std::move(points)) {
    std::ranges::sort(points_);
    if (dimension_.choices) {
      counts_.assign(static_cast<size_t>(dimension_.choices), 1.0 / static_cast<double>(dimension_.choices));
      for (const double point : points_) counts_[static_cast<size_t>(choice_of(dimension_, point))] += 1;
      return;
    }
    const double least = 1 / std::min(100.0, 1.0 + static_cast<double>(points_.size()));
    for (size_t i = 0; i < points_.size(); ++i) {
      const double below = points_[i] - (i == 0 ? 0.0 : points_[i - 1]);
      const double above = (i + 1 == points_.size() ? 1.0 : points_[i + 1]) - points_[i];
      widths_.push_back(std::clamp(std::max(below, above), least, 1.0));
    }
  }

  double draw(Rng& rng) const {
    const uint64_t which = rng.next_below(points_.size() + 1);
    const double number = rng.next_uniform();
    if (dimension_.choices) {
      double total = static_cast<double>(points_.size()) + 1, at = number * total;
      for (Index c = 0; c < dimension_.choices; ++c)
        if ((at -= counts_[static_cast<size_t>(c)]) < 0) return coordinate_of(dimension_, c);
      return coordinate_of(dimension_, dimension_.choices - 1);
    }
    if (which == points_.size()) return number;  // the flat part
    const double bell = Rng(rng.next_below(uint64_t{1} << 62)).normal(0);
    return std::clamp(points_[which] + widths_[which] * bell, 0.0, 1.0);
  }

  double at(double x) const {
    const double parts = static_cast<double>(points_.size()) + 1;
    if (dimension_.choices) return counts_[static_cast<size_t>(choice_of(dimension_, x))] / parts;
    double sum = 1;  // the flat part
    for (size_t i = 0; i < points_.size(); ++i) {
      const double w = widths_[i], z = (x - points_[i]) / w, root = w * std::sqrt(2.0);
      const double inside = 0.5 * (std::erf((1 - points_[i]) / root) + std::erf(points_[i] / root));
      sum += std::exp(-0.5 * z * z) / (w * std::sqrt(2 * std::acos(-1.0)) * inside);
    }
    return sum / parts;
  }

 private:
  Dimension dimension_;
  std::vector<double> points_, widths_, counts_;
};

class Tpe final : public SearchMethod {
 public:
  static constexpr const char* about = "tree-structured Parzen estimator (Bergstra et al., 2011)";
  static std::vector<Parameter> parameters() {
    return {{"startup", "random trials first", 8},
            {"good", "share of trials that count as good", 0.25},
            {"candidates", "points of which the best is tried", 24}};
  }

  explicit Tpe(const SearchSettings& settings)
      : space_(settings.space),
        count_(settings.trials ? settings.trials : 30),
        startup_(settings.values.integer("startup", 8)),
        candidates_(settings.values.integer("candidates", 24)),
        good_(settings.values.real("good", 0.25)),
        seed_(settings.seed) {
    if (startup_ < 2 || candidates_ < 1 || !(good_ > 0 && good_ < 1))
      throw UsageError("[search] tpe: startup {}, candidates {}, good {}; legal: at least 2, at least 1, 0 to 1",
                       startup_, candidates_, good_);
  }

  Next next(std::span<const Trial> so_far) const override {
    if (static_cast<Index>(so_far.size()) >= count_) return {};
    Rng rng(seed_, stream_of("search tpe") + so_far.size());
    std::vector<const Trial*> done, bad;
    for (const Trial& trial : so_far) (trial.cost && std::isfinite(*trial.cost) ? done : bad).push_back(&trial);
    if (static_cast<Index>(so_far.size()) < startup_ || done.size() < 2)
      return {Next::Kind::trial, random_point(space_, rng, 0)};
    std::ranges::stable_sort(done, {}, [](const Trial* trial) { return *trial->cost; });
    const auto split = static_cast<size_t>(std::ceil(good_ * static_cast<double>(done.size())));
    bad.insert(bad.end(), done.begin() + static_cast<ptrdiff_t>(split), done.end());
    done.resize(split);

    Point point(space_.size());
    for (size_t d = 0; d < space_.size(); ++d) {
      const Density good(space_[d], coordinates(done, d)), other(space_[d], coordinates(bad, d));
      double best = -std::numeric_limits<double>::infinity();
      for (Index i = 0; i < candidates_; ++i) {
        const double x = good.draw(rng), ratio = good.at(x) / other.at(x);
        if (ratio > best) best = ratio, point[d] = x;
      }
    }
    return {Next::Kind::trial, std::move(point)};
  }

 private:
  static std::vector<double> coordinates(const std::vector<const Trial*>& trials, size_t dimension) {
    std::vector<double> result;
    for (const Trial* trial : trials) result.push_back(trial->point[dimension]);
    return result;
  }

  std::vector<Dimension> space_;
  Index count_, startup_, candidates_;
  double good_;
  uint64_t seed_;
};

}  // namespace
D5_REGISTER(search_methods, "tpe", Tpe);
}  // namespace d5
