// SPDX-License-Identifier: Apache-2.0
// What can be said about a case in one number. A metric is one file with a class that ends with
//   D5_REGISTER(metrics, "time", Time);
// and is chosen by name: --metric energy,repeatability (the usual ones need not be named). It may look at a case from
// two places, both optional:
//   in the child    why_not, see (results beside what was expected), begin and end (around a timed slice), report
//   in the parent   value: from the samples, the cost, the share of the bound and what the children reported
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "d5/core/registry.hpp"
#include "d5/core/tensor.hpp"
#include "d5/measure/summary.hpp"

namespace d5 {

// A value as it stands in a record.
struct Metric {
  std::string unit;
  double median = 0;
  std::optional<std::pair<double, double>> ci95;
  size_t n = 1;
  double n_eff = 1;
};

// One result of a run beside what the oracle expects of it: all elements, or those at `at`.
struct CheckedResult {
  std::string name;  // "y0", "gradient of x1"
  const Tensor& actual;
  std::span<const Index> at;  // flat indices; empty: all
  std::span<const double> expected, tolerance;
  Index place(size_t i) const { return at.empty() ? static_cast<Index>(i) : at[i]; }
};

// What is known of a case when its record is made.
struct Measured {
  std::optional<Summary> time;  // of one iteration, in seconds; absent: nothing was timed
  double flops = 0, bytes = 0;
  std::vector<double> shares;           // of the bound, one a slice
  nlohmann::json check;                 // details.check of the record: linf, l1, l2, compared; null where there is none
  std::vector<nlohmann::json> reports;  // this metric's own, one a launch
};

class Meter {
 public:
  virtual ~Meter() = default;
  virtual std::string about() const = 0;
  virtual std::string unit() const = 0;
  virtual bool smaller_is_better() const { return true; }

  // ---- in the child
  virtual std::optional<std::string> why_not() const { return {}; }  // the reason why it is unavailable here
  virtual int repeats() const { return 0; }                          // further runs of the same inputs that it sees
  virtual void see(const CheckedResult&, int /*run*/) {}             // run 0 is the checked one
  virtual void begin() {}                                            // a timed slice; no other work in between
  virtual void end(int64_t /*iterations*/) {}
  // For value(), and for details.metrics of the record; null: nothing to say. Files go to `prefix` + a name.
  virtual nlohmann::json report(const std::string& /*prefix*/) { return nullptr; }

  // ---- in the parent; empty: this case has no such value
  virtual std::optional<Metric> value(const Measured&) const = 0;
};

struct metrics {
  static constexpr const char* kind = "metric";
  struct Entry {
    std::function<std::unique_ptr<Meter>()> make;
  };
  template <class T>
  static Entry entry() {
    return {[]() -> std::unique_ptr<Meter> { return std::make_unique<T>(); }};
  }
};

// Those that every record has where the case allows it, in the order to be shown.
const std::vector<std::string>& usual_metrics();

}  // namespace d5
