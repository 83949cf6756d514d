// SPDX-License-Identifier: Apache-2.0
// Variance heat map: where results differ from run to run on the same inputs, as a picture; the value is the largest
// variance of an element.
#include "d5/measure/metrics/element_variance.hpp"
#include "d5/measure/metrics/heat_map.hpp"

namespace d5 {
namespace {

class VarianceMap final : public Meter {
 public:
  std::string about() const override {
    return "picture of the variance over 10 runs of the same inputs, and its largest";
  }
  std::string unit() const override { return "1"; }
  int repeats() const override { return 9; }
  void see(const CheckedResult& result, int run) override { variance_.see(result, run); }

  nlohmann::json report(const std::string& prefix) override {
    if (variance_.results().empty()) return nullptr;
    nlohmann::json files = nlohmann::json::array();
    double largest = 0;
    size_t elements = 0;
    for (const auto& [name, tracked] : variance_.results()) {
      HeatMap map(tracked.shape);
      for (size_t i = 0; i < tracked.first.size(); ++i)
        map.add(static_cast<Index>(i) * tracked.step, tracked.variance(i));
      files.push_back(write_heat_map(map, prefix, name, "variance"));
      largest = std::max(largest, map.largest());
      elements += tracked.first.size();
    }
    return {{"files", files}, {"largest", largest}, {"elements", elements}};
  }

  std::optional<Metric> value(const Measured& m) const override {
    if (m.reports.empty()) return std::nullopt;
    const nlohmann::json& v = m.reports.back().at("largest");
    return Metric{.unit = unit(),
                  .median = v.is_number() ? v.get<double>() : INFINITY,
                  .n = m.reports.back().at("elements").get<size_t>()};
  }

 private:
  ElementVariance variance_;
};

}  // namespace
D5_REGISTER(metrics, "variance_map", VarianceMap);
}  // namespace d5
