// SPDX-License-Identifier: Apache-2.0
// Difference heat map: where |y - expected| of the checked results lies, as a picture; the value is the largest one.
#include <cmath>

#include "d5/core/convert.hpp"
#include "d5/measure/metric.hpp"
#include "d5/measure/metrics/heat_map.hpp"

namespace d5 {
namespace {

class DifferenceMap final : public Meter {
 public:
  std::string about() const override { return "picture of |error| over each result, and its largest"; }
  std::string unit() const override { return "1"; }

  void see(const CheckedResult& result, int run) override {
    if (run != 0) return;
    HeatMap map(result.actual.shape());
    for (size_t i = 0; i < result.expected.size(); ++i) {
      const double got = load_as_double(result.actual.dtype(), result.actual.data(), result.place(i));
      const bool same = got == result.expected[i] || (std::isnan(got) && std::isnan(result.expected[i]));
      map.add(result.place(i), same ? 0 : std::abs(got - result.expected[i]));
    }
    compared_ += result.expected.size();
    maps_.emplace_back(result.name, std::move(map));
  }

  nlohmann::json report(const std::string& prefix) override {
    if (maps_.empty()) return nullptr;
    nlohmann::json files = nlohmann::json::array();
    double largest = 0;
    for (const auto& [name, map] : maps_) {
      files.push_back(write_heat_map(map, prefix, name, "difference"));
      largest = std::max(largest, map.largest());
    }
    return {{"files", files}, {"largest", largest}, {"compared", compared_}};
  }

  std::optional<Metric> value(const Measured& m) const override {
    if (m.reports.empty()) return std::nullopt;
    const nlohmann::json& v = m.reports.back().at("largest");
    return Metric{.unit = unit(),
                  .median = v.is_number() ? v.get<double>() : INFINITY,
                  .n = m.reports.back().at("compared").get<size_t>()};
  }

 private:
  std::vector<std::pair<std::string, HeatMap>> maps_;
  size_t compared_ = 0;
};

}  // namespace
D5_REGISTER(metrics, "difference_map", DifferenceMap);
}  // namespace d5
