// SPDX-License-Identifier: Apache-2.0
// Energy of one iteration: what the processor packages spent in the timed slices / iterations, the median over
// launches. The packages' counters see everything that runs on them, so other work counts too.
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
  std::optional<Metric> value(const Measured& m) const override {
    if (m.reports.empty()) return std::nullopt;
    std::vector<double> launches;
    for (const nlohmann::json& report : m.reports)
      launches.push_back(report.at("joules").get<double>() / report.at("iterations").get<double>());
    const Summary summary = summarize(launches);
    Metric metric{.unit = unit(), .median = summary.median, .n = summary.n, .n_eff = summary.n_eff};
    if (summary.ci95) metric.ci95 = {summary.ci95->low, summary.ci95->high};
    return metric;
  }

 private:
  EnergyCounter counter_;
  std::vector<uint64_t> at_begin_;
  double joules_ = 0;
  int64_t iterations_ = 0;
};

}  // namespace
D5_REGISTER(metrics, "energy", Energy);
}  // namespace d5
