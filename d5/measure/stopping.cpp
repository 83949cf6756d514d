// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/stopping.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "d5/measure/quantile.hpp"

namespace d5 {
namespace {

// Does the 95 % interval of the median reach no further than relative_width of it on either side?
bool median_is_narrow(std::span<const double> in_time_order, double relative_width) {
  // A narrow interval from few effective samples is luck: the rule would stop because n_eff came out too large.
  constexpr double enough = 50;
  if (in_time_order.empty()) return false;
  const double n_eff = effective_samples(in_time_order);
  if (n_eff < std::min(enough, static_cast<double>(in_time_order.size()))) return false;
  std::vector<double> sorted(in_time_order.begin(), in_time_order.end());
  std::sort(sorted.begin(), sorted.end());
  const double middle = quantile(sorted, 0.5);
  const auto interval = quantile_interval(sorted, 0.5, n_eff);
  if (!interval) return false;
  const double reach = std::max(middle - interval->low, interval->high - middle);
  return reach <= relative_width * std::abs(middle);
}

// What both rules share: the samples, the time they took, and the reason once there is one.
class Limited : public StoppingRule {
 public:
  explicit Limited(const StoppingOptions& options) : options_(options) {
    if (!(options.relative_width > 0))
      throw UsageError("[stopping] relative width {}; legal: above 0", options.relative_width);
    if (!(options.max_seconds > 0)) throw UsageError("[stopping] max time {} s; legal: above 0", options.max_seconds);
    if (options.max_samples == 0 || options.first_look == 0) throw UsageError("[stopping] 0 samples; legal: 1 or more");
  }
  void reset() final {
    samples_.clear();
    seconds_ = 0;
    why_.clear();
  }
  void add(double sample) final {
    samples_.push_back(sample);
    seconds_ += sample * static_cast<double>(options_.batch);
    if (why_.empty()) why_ = reason();
  }
  bool done() const final { return !why_.empty(); }
  std::string why() const final { return why_; }

 protected:
  virtual std::string reason() const = 0;
  StoppingOptions options_;
  std::vector<double> samples_;
  double seconds_ = 0;

 private:
  std::string why_;
};

class IntervalRule final : public Limited {
  using Limited::Limited;

  std::string reason() const override {
    if (on_schedule(samples_.size()) && median_is_narrow(samples_, options_.relative_width)) return "converged";
    if (seconds_ >= options_.max_seconds) return "max_time";
    if (samples_.size() >= options_.max_samples) return "max_samples";
    return "";
  }

  // Looking more often, or earlier, would stop at lucky moments and cover too little.
  bool on_schedule(size_t n) const {
    while (n > options_.first_look && n % 2 == 0) n /= 2;
    return n == options_.first_look;
  }
};

class FixedRule final : public Limited {
  using Limited::Limited;

  std::string reason() const override {
    if (samples_.size() >= options_.first_look) return "fixed";
    if (seconds_ >= options_.max_seconds) return "max_time";
    return "";
  }
};

}  // namespace
D5_REGISTER(stopping_rules, "interval", IntervalRule);
D5_REGISTER(stopping_rules, "fixed", FixedRule);

std::unique_ptr<StoppingRule> make_stopping_rule(std::string_view name, const StoppingOptions& options) {
  return registered<stopping_rules>(name).make(options);
}

}  // namespace d5
