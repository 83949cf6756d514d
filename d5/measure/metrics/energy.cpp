// SPDX-License-Identifier: Apache-2.0
// Energy of one iteration: what the processor packages spent in the timed slices / iterations, the median over
// launches. The packages' counters see everything that runs on them, so other work counts too.
#include "d5/measure/metrics/energy.hpp"
#include "d5/measure/energy_counter.hpp"
#include "d5/measure/metric.hpp"

namespace d5 {
namespace {

class Energy final : public Meter {
 public:
  std::string about() const override { return "energy of the processor packages in one iteration (powercap)"; }
  std::string unit() const override { return "J"; }
  std::optional<std::string> why_not() const override { return counter_.why_not(); }
  void begin() override { at_begin_ = counter_.read(); }
  void end(int64_t iterations) override {
    joules_ += counter_.joules(at_begin_, counter_.read());
    iterations_ += iterations;
  }
  nlohmann::json report(const std::string&) override {
    if (iterations_ == 0) return nullptr;
    return {{"joules", joules_}, {"iterations", iterations_}};
  }
  std::optional<Metric> value(const Measured& m) const override { return energy_per_iteration(m); }

 private:
  EnergyCounter counter_;
  std::vector<uint64_t> at_begin_;
  double joules_ = 0;
  int64_t iterations_ = 0;
};

}  // namespace
D5_REGISTER(metrics, "energy", Energy);
}  // namespace d5
