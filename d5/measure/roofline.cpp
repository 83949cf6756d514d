// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/roofline.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace d5 {
namespace {

double peak_of(const Roofline& roofline, DType type) {
  const auto found = roofline.peak_flops.find(std::string(name(type)));
  return found == roofline.peak_flops.end() ? 0 : found->second;
}

}  // namespace

double Roofline::peak(DType type) const {
  const double own = peak_of(*this, type);
  // What is stored narrow may be widened and computed in f32, so it is never slower than that.
  return is_float(type) && bits(type) < 32 ? std::max(own, peak_of(*this, DType::f32)) : own;
}

double Roofline::bandwidth_at(double working_set_bytes) const {
  if (bandwidth.empty()) throw Error("[roofline] no bandwidth was measured");
  const auto above = std::lower_bound(bandwidth.begin(), bandwidth.end(), working_set_bytes,
                                      [](const auto& node, double size) { return node.first < size; });
  if (above == bandwidth.end()) return bandwidth.back().second;
  if (above == bandwidth.begin() || above->first == working_set_bytes) return above->second;
  const auto below = above - 1;
  const double share = std::log(working_set_bytes / below->first) / std::log(above->first / below->first);
  return below->second + share * (above->second - below->second);
}

double Roofline::bound_seconds(double flops, double compulsory_bytes, double working_set_bytes, DType type) const {
  const double rate = peak(type);
  const double compute = rate > 0 ? flops / rate : 0;
  const double traffic = compulsory_bytes > 0 ? compulsory_bytes / bandwidth_at(working_set_bytes) : 0;
  return std::max(compute, traffic);
}

Roofline Roofline::scaled(double compute_ratio, double bandwidth_ratio) const {
  Roofline other = *this;
  for (auto& [type, rate] : other.peak_flops) rate *= compute_ratio;
  for (auto& [size, rate] : other.bandwidth) rate *= bandwidth_ratio;
  return other;
}

nlohmann::json to_json(const Roofline& r) {
  return {{"threads", r.threads}, {"peak_flops", r.peak_flops}, {"bandwidth", r.bandwidth}};
}

Roofline roofline_from_json(const nlohmann::json& json) try {
  Roofline r;
  r.threads = json.at("threads").get<int>();
  r.peak_flops = json.at("peak_flops").get<std::map<std::string, double>>();
  r.bandwidth = json.at("bandwidth").get<std::vector<std::pair<double, double>>>();
  const auto positive = [](const auto& entry) { return entry.second > 0 && std::isfinite(entry.second); };
  const bool rising = std::adjacent_find(r.bandwidth.begin(), r.bandwidth.end(),
                                         [](auto& a, auto& b) { return !(a.first < b.first); }) == r.bandwidth.end();
  if (r.threads < 1 || r.peak_flops.empty() || r.bandwidth.empty() || !(r.bandwidth.front().first > 0) || !rising ||
      !std::all_of(r.peak_flops.begin(), r.peak_flops.end(), positive) ||
      !std::all_of(r.bandwidth.begin(), r.bandwidth.end(), positive))
    throw Error("[roofline] rates must be positive and sizes rising");
  return r;
} catch (const nlohmann::json::exception& e) {
  throw Error("[roofline] {}", e.what());
}

}  // namespace d5
