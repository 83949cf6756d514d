// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/conformance_cases.hpp"

#include <algorithm>

#include "d5/core/origin.hpp"
#include "d5/core/trial.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

bool holds_strings(const std::vector<TensorSpec>& specs) {
  return std::ranges::any_of(specs, [](const TensorSpec& spec) { return spec.dtype == DType::string; });
}

// Strings have no random values to be filled with and no errors to be measured: tests/unit/operators has them.
bool is_defined(const std::string& op, const Attributes& values, const std::string& dtype) {
  const OperatorEntry& entry = registered<operators>(op);
  const auto act = [&](const Calling& calling) {
    calling("describe");
    const OperatorCase one = entry.describe(complete_values(op, entry, values), parse_dtype(dtype));
    try {
      calling("its constructor or infer");
      const bool strings = holds_strings(one.specs()) || holds_strings(entry.make(one.attributes)->infer(one.specs()));
      return std::string(strings ? "strings" : "defined");
    } catch (const Error&) {
      return std::string("undefined");
    }
  };
  return (is_users<operators>(op) ? try_apart("[" + op + "]", act) : act([](std::string_view) {})) == "defined";
}

}  // namespace

const std::vector<std::string>& conformance_dtypes() {
  static const std::vector<std::string> names{"f32", "bf16", "f64", "f16", "i32", "bool"};
  return names;
}

std::vector<ConformanceCell> conformance_cells(const std::vector<std::string>& operators) {
  std::vector<ConformanceCell> cells;
  for (const std::string& op : operators)
    for (const std::string& dtype : conformance_dtypes()) {
      cells.push_back({op, dtype, "forward"});
      if (is_float(parse_dtype(dtype))) cells.push_back({op, dtype, "backward"});
    }
  return cells;
}

std::vector<Json> conformance_cases(const ConformanceCell& cell, const std::string& backend, const std::string& device,
                                    const std::vector<std::string>& layouts, int threads) {
  std::vector<Json> cases;
  for (const Attributes& values : registered<operators>(cell.op).cases) {
    if (!is_defined(cell.op, values, cell.dtype)) continue;
    for (const std::string& layout : layouts) {
      Json fields = to_json(values);
      fields.update({{"kind", "op"},
                     {"operator", cell.op},
                     {"backend", backend},
                     {"device", device},
                     {"dtype", cell.dtype},
                     {"pass", cell.pass},
                     {"layout", layout},
                     {"threads", threads}});
      cases.push_back(bench_of(fields).complete(fields));
    }
  }
  return cases;
}

}  // namespace d5
