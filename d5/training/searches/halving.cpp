// SPDX-License-Identifier: Apache-2.0
// Successive halving (Jamieson and Talwalkar, 2016): many short trainings; the best 1/eta of a rung are trained again,
// eta times as long, until a rung has the whole length. Hyperband (Li et al., 2018) does so from several shortest
// lengths, because nobody knows how early a good training shows. A longer training begins anew: its schedule differs.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "d5/training/search.hpp"

namespace d5 {
namespace {

struct Rung {
  Index trials;
  double budget;
  bool fresh;  // its points are new; else the best of the rung before
};

class Rungs : public SearchMethod {
 public:
  Next next(std::span<const Trial> so_far) const override {
    const auto number = static_cast<Index>(so_far.size());
    Index first = 0;
    for (size_t r = 0; r < rungs_.size(); first += rungs_[r].trials, ++r) {
      const Index place = number - first;
      if (place >= rungs_[r].trials) continue;
      if (rungs_[r].fresh) return {Next::Kind::trial, random_point(space_, rng_, so_far.size()), rungs_[r].budget};
      const auto before =
          so_far.subspan(static_cast<size_t>(first - rungs_[r - 1].trials), static_cast<size_t>(rungs_[r - 1].trials));
      if (std::ranges::any_of(before, [](const Trial& trial) { return !trial.cost; })) return {Next::Kind::wait};
      std::vector<size_t> order(before.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, {}, [&](size_t i) { return *before[i].cost; });
      return {Next::Kind::trial, before[order[static_cast<size_t>(place)]].point, rungs_[r].budget};
    }
    return {};
  }

 protected:
  Rungs(const SearchSettings& settings, std::string_view name)
      : eta_(settings.values.real("eta", 3)), space_(settings.space), rng_(settings.seed, stream_of(name)) {
    if (!(eta_ > 1)) throw UsageError("[search] {}: eta is {}; numbers above 1 are legal", name, eta_);
    const double least = settings.values.real("least", 1.0 / 9);
    if (!(least > 0 && least <= 1))
      throw UsageError("[search] {}: least is {}; a share of the whole length, 0 to 1, is legal", name, least);
    halvings_ = static_cast<int>(std::floor(std::log(1 / least) / std::log(eta_) + 1e-9));
  }

  // `trials` points whose shortest training is eta^-halvings of the whole. Where less than one of them is left for a
  // rung, the best one goes straight to the whole length: there is always a winner.
  void add_bracket(Index trials, int halvings) {
    for (int i = 0; i <= halvings; ++i) {
      const auto count = static_cast<Index>(static_cast<double>(trials) / std::pow(eta_, i));
      if (count >= 1 || i == halvings)
        rungs_.push_back({std::max<Index>(1, count), std::pow(eta_, i - halvings), i == 0});
    }
  }

  static std::vector<Parameter> common_parameters() {
    return {{"eta", "one of so many goes on, so many times as long", 3.0},
            {"least", "the shortest training, as a share of the whole", 1.0 / 9}};
  }

  double eta_;
  int halvings_ = 0;

 private:
  std::vector<Dimension> space_;
  Rng rng_;
  std::vector<Rung> rungs_;
};

class Halving final : public Rungs {
 public:
  static constexpr const char* about = "many short trainings, the best go on longer (Jamieson and Talwalkar, 2016)";
  static std::vector<Parameter> parameters() { return common_parameters(); }
  explicit Halving(const SearchSettings& settings) : Rungs(settings, "halving") {
    add_bracket(settings.trials ? settings.trials : static_cast<Index>(std::round(std::pow(eta_, halvings_))),
                halvings_);
  }
};

class Hyperband final : public Rungs {
 public:
  static constexpr const char* about = "halving from several shortest lengths (Li et al., 2018)";
  static std::vector<Parameter> parameters() { return common_parameters(); }
  explicit Hyperband(const SearchSettings& settings) : Rungs(settings, "hyperband") {
    if (settings.trials)
      throw UsageError(
          "[search] hyperband: trials is {}, and their number follows from eta and least; legal: 0 (--trials 0)",
          settings.trials);
    for (int s = halvings_; s >= 0; --s)
      add_bracket(static_cast<Index>(std::ceil((halvings_ + 1.0) / (s + 1.0) * std::pow(eta_, s) - 1e-9)), s);
  }
};

}  // namespace
D5_REGISTER(search_methods, "halving", Halving);
D5_REGISTER(search_methods, "hyperband", Hyperband);
}  // namespace d5
