// SPDX-License-Identifier: Apache-2.0
// The right mean for a unit is a property of its kind (rules 3 and 4 of Hoefler and Belli, SC'15): costs add up, so
// their mean is arithmetic; rates divide a fixed work by a cost, so theirs is harmonic; ratios have no mean at all.
#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "d5/core/error.hpp"

namespace d5 {

enum class Kind { cost, rate, ratio };

template <Kind kind>
struct Quantity {
  double value;
};
using Cost = Quantity<Kind::cost>;    // s, bytes, J: what is paid
using Rate = Quantity<Kind::rate>;    // GFLOP/s, images/s: work per cost, the same work in each value
using Ratio = Quantity<Kind::ratio>;  // x, %: a quotient of two measurements

inline Cost mean(std::span<const Cost> values) {
  if (values.empty()) throw Error("[mean] no values");
  double sum = 0;
  for (const Cost& v : values) sum += v.value;
  return {sum / static_cast<double>(values.size())};
}

inline Rate mean(std::span<const Rate> values) {
  if (values.empty()) throw Error("[mean] no values");
  double time = 0;
  for (const Rate& v : values) {
    if (!(v.value > 0)) throw Error("[mean] rate {}; legal: above 0", v.value);
    time += 1 / v.value;
  }
  return {static_cast<double>(values.size()) / time};
}

Ratio mean(std::span<const Ratio> values) = delete;  // compare total times instead

// The last resort where only ratios are known; whoever prints it prints the label with it.
struct LabelledMean {
  double value;
  std::string_view label;
};
inline LabelledMean geometric_mean_last_resort(std::span<const Ratio> values) {
  if (values.empty()) throw Error("[mean] no values");
  double sum = 0;
  for (const Ratio& v : values) {
    if (!(v.value > 0)) throw Error("[mean] ratio {}; legal: above 0", v.value);
    sum += std::log(v.value);
  }
  return {std::exp(sum / static_cast<double>(values.size())), "geometric mean of ratios"};
}

struct Unit {
  std::string_view name;
  Kind kind;
};
inline constexpr std::array units = {
    Unit{"s", Kind::cost},        Unit{"ms", Kind::cost},        Unit{"us", Kind::cost},
    Unit{"ns", Kind::cost},       Unit{"B", Kind::cost},         Unit{"KiB", Kind::cost},
    Unit{"MiB", Kind::cost},      Unit{"GiB", Kind::cost},       Unit{"J", Kind::cost},
    Unit{"FLOP", Kind::cost},     Unit{"epochs", Kind::cost},    Unit{"steps", Kind::cost},
    Unit{"FLOP/s", Kind::rate},   Unit{"GFLOP/s", Kind::rate},   Unit{"TFLOP/s", Kind::rate},
    Unit{"B/s", Kind::rate},      Unit{"MB/s", Kind::rate},      Unit{"GB/s", Kind::rate},
    Unit{"images/s", Kind::rate}, Unit{"samples/s", Kind::rate}, Unit{"tokens/s", Kind::rate},
    Unit{"steps/s", Kind::rate},  Unit{"x", Kind::ratio},        Unit{"%", Kind::ratio},
    Unit{"1", Kind::ratio},
};

// Empty for a unit that the table does not know.
inline std::optional<Kind> kind_of(std::string_view unit) {
  for (const Unit& u : units) {
    if (u.name == unit) return u.kind;
  }
  return std::nullopt;
}

// What a report prints beside the number: "arithmetic", "harmonic" or "none".
constexpr std::string_view mean_of(Kind kind) {
  switch (kind) {
    case Kind::cost: return "arithmetic";
    case Kind::rate: return "harmonic";
    case Kind::ratio: break;
  }
  return "none";
}

// The mean of plain numbers whose unit is known only when the program runs; empty for ratios.
inline std::optional<double> mean_of(Kind kind, std::span<const double> values) {
  const auto typed = [&]<Kind k>() {
    std::vector<Quantity<k>> copies;
    for (double v : values) copies.push_back({v});
    return mean(std::span<const Quantity<k>>(copies)).value;
  };
  if (kind == Kind::cost) return typed.operator()<Kind::cost>();
  if (kind == Kind::rate) return typed.operator()<Kind::rate>();
  return std::nullopt;
}

}  // namespace d5
