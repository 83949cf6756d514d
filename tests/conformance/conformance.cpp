// SPDX-License-Identifier: Apache-2.0
// Every backend x operator x case x dtype, forward and gradient, against the oracle. Prints a table: what passed, and
// for what is unsupported the reason. Anything else is a failure, and so is a backend that supports nothing.
//   conformance [--device DEVICE] [BACKEND...]        default: every backend that is there, on the cpu
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "d5/backends/backend.hpp"
#include "d5/bench/session.hpp"
#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

struct Tally {
  int passed = 0, unsupported = 0, failed = 0;
  std::set<std::string> reasons;
};

Json case_of(const std::string& op, const Attributes& values, const std::string& backend, const std::string& device,
             const char* dtype, const char* pass, const char* layout) {
  Json fields = to_json(values);
  fields.update(
      {{"kind", "op"}, {"operator", op}, {"backend", backend}, {"dtype", dtype}, {"pass", pass}, {"layout", layout}});
  fields["threads"] = usable_cores();
  fields["device"] = device;
  return bench_of(fields).complete(fields);
}

// Whether ONNX defines this case at all: Conv of integers and Gemm of integers with alpha = 0.5 have no meaning.
bool is_defined(const std::string& op, const Attributes& values, const char* dtype) {
  const OperatorEntry& entry = registered<operators>(op);
  const OperatorCase one = entry.describe(complete_values(op, entry, values), parse_dtype(dtype));
  try {
    entry.make(one.attributes)->infer(one.specs());
    return true;
  } catch (const Error&) {
    return false;
  }
}

void check(const Json& fields, Tally& tally) {
  Outcome outcome;
  try {
    outcome = bench_of(fields).open(fields)->prepare(Depth::check);
  } catch (const std::exception& error) {
    outcome = {.status = "error", .reason = error.what()};
  }
  if (outcome.status == "passed") {
    ++tally.passed;
  } else if (outcome.status == "unsupported") {
    ++tally.unsupported;
    tally.reasons.insert(outcome.reason);
  } else if (outcome.status == "mistrusted" &&
             outcome.reason.find("every expected value is zero") != std::string::npos) {
    ++tally.passed;  // a gradient that is zero by its meaning, such as that of a case with one element
  } else {
    ++tally.failed;
    fmt::print("FAILED {}\n       {}: {}\n", bench_of(fields).rerun(fields), outcome.status, outcome.reason);
  }
}

int run(const std::vector<std::string>& backends, const std::string& device) {
  int failed = 0;
  for (const std::string& backend : backends) {
    int passed = 0;
    fmt::print("{:<10} {:<20} {:<5} {:<8} {:>6} {:>11} {:>6}\n", "backend", "operator", "dtype", "pass", "passed",
               "unsupported", "failed");
    for (const std::string& op : registry_names(operators::kind))
      for (const char* dtype : {"f32", "bf16", "f64", "f16", "i32", "bool"})
        for (const char* pass : {"forward", "backward"}) {
          if (!is_float(parse_dtype(dtype)) && std::string(pass) == "backward") continue;
          Tally tally;
          for (const Attributes& values : registered<operators>(op).cases) {
            if (!is_defined(op, values, dtype)) continue;
            for (const char* layout : {"fast", "plain"})
              check(case_of(op, values, backend, device, dtype, pass, layout), tally);
          }
          if (tally.passed + tally.unsupported + tally.failed == 0) continue;
          fmt::print("{:<10} {:<20} {:<5} {:<8} {:>6} {:>11} {:>6}\n", backend, op, dtype, pass, tally.passed,
                     tally.unsupported, tally.failed);
          for (const std::string& reason : tally.reasons) fmt::print("{:<10} unsupported: {}\n", "", reason);
          passed += tally.passed;
          failed += tally.failed;
        }
    if (passed == 0) {
      fmt::print("FAILED {}: not one case passed\n", backend);
      ++failed;
    }
  }
  fmt::print("{} failed\n", failed);
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace d5

int main(int argc, char** argv) {
  std::vector<std::string> backends(argv + 1, argv + argc);
  std::string device = "cpu";
  if (backends.size() >= 2 && backends[0] == "--device") {
    device = backends[1];
    backends.erase(backends.begin(), backends.begin() + 2);
  }
  if (backends.empty())
    for (const d5::BackendStatus& status : d5::backend_statuses())
      if (status.available) backends.push_back(status.name);
  return d5::run(backends, device);
}
