// SPDX-License-Identifier: Apache-2.0
// Repeatability: the largest variance of a result's element over runs of the same inputs. Zero: every bit was the same.
#include "d5/measure/metrics/element_variance.hpp"

namespace d5 {
namespace {

class Repeatability final : public Meter {
 public:
  std::string about() const override { return "largest variance of an element over 10 runs of the same inputs"; }
  std::string unit() const override { return "1"; }
  int repeats() const override { return 9; }
  void see(const CheckedResult& result, int run) override { variance_.see(result, run); }

  nlohmann::json report(const std::string&) override {
    if (variance_.results().empty()) return nullptr;
    double largest = 0;
    size_t differing = 0, followed = 0;
    for (const auto& [name, tracked] : variance_.results())
      for (size_t i = 0; i < tracked.first.size(); ++i) {
        const double v = tracked.variance(i);
        largest = std::max(largest, std::isfinite(v) ? v : INFINITY);
        differing += v != 0;
        ++followed;
      }
    return {{"largest_variance", largest}, {"differing", differing}, {"elements", followed}, {"runs", repeats() + 1}};
  }

  std::optional<Metric> value(const Measured& m) const override {
    double largest = 0;
    for (const nlohmann::json& report : m.reports) {
      const nlohmann::json& v = report.at("largest_variance");
      largest = std::max(largest, v.is_number() ? v.get<double>() : INFINITY);  // JSON has no infinity
    }
    if (m.reports.empty()) return std::nullopt;
    return Metric{.unit = unit(), .median = largest, .n = m.reports.front().at("elements")};
  }

 private:
  ElementVariance variance_;
};

}  // namespace
D5_REGISTER(metrics, "repeatability", Repeatability);
}  // namespace d5
