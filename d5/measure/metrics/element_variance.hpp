// SPDX-License-Identifier: Apache-2.0
// Variance of single elements over runs, from the differences d to the first run, so that equal bits give exactly zero:
//   s^2 = (sum d^2 - (sum d)^2 / runs) / (runs - 1)
// Of a large tensor every k-th element is followed.
#pragma once

#include <cmath>
#include <map>

#include "d5/core/convert.hpp"
#include "d5/measure/metric.hpp"

namespace d5 {

class ElementVariance {
 public:
  static constexpr Index most_elements = Index{1} << 20;

  struct Tracked {
    Shape shape;
    Index step = 1;
    std::vector<double> first, sum, squares;
    int runs = 0;
    double variance(size_t i) const {
      if (runs < 2) return 0;
      const double v = (squares[i] - sum[i] * sum[i] / runs) / (runs - 1);
      return v < 0 ? 0 : v;  // NaN stays
    }
  };

  void see(const CheckedResult& result, int run) {
    Tracked& t = results_[result.name];
    if (run == 0) {
      t = {.shape = result.actual.shape()};
      t.step = std::max<Index>(1, (result.actual.elements() + most_elements - 1) / most_elements);
      const auto count = static_cast<size_t>((result.actual.elements() + t.step - 1) / t.step);
      t.first.resize(count);
      t.sum.assign(count, 0);
      t.squares.assign(count, 0);
    }
    for (size_t i = 0; i < t.first.size(); ++i) {
      const double value = load_as_double(result.actual.dtype(), result.actual.data(), static_cast<Index>(i) * t.step);
      if (run == 0) t.first[i] = value;
      // The same infinity, or NaN again, is no difference.
      const bool same = value == t.first[i] || (std::isnan(value) && std::isnan(t.first[i]));
      const double d = same ? 0 : value - t.first[i];
      t.sum[i] += d;
      t.squares[i] += d * d;
    }
    ++t.runs;
  }

  const std::map<std::string, Tracked>& results() const { return results_; }

 private:
  std::map<std::string, Tracked> results_;
};

}  // namespace d5
