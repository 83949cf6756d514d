// SPDX-License-Identifier: Apache-2.0
// The second Conv of onednn against the oracle, over every case of conformance in f32.
#include <gtest/gtest.h>

#include "d5/backends/backend.hpp"
#include "d5/bench/conformance_cases.hpp"
#include "d5/bench/session.hpp"

namespace d5 {
namespace {

TEST(Im2col, AgreesWithTheOracle) {
  for (const BackendStatus& status : backend_statuses())
    if (status.name == "onednn" && !status.available) GTEST_SKIP() << status.reason;
  int passed = 0;
  for (const ConformanceCell& cell : conformance_cells({"Conv"})) {
    if (cell.dtype != "f32") continue;
    for (Json fields : conformance_cases(cell, "onednn", "cpu", {"fast"}, 1)) {
      fields["kernel"] = "im2col";
      const Outcome outcome = bench_of(fields).open(fields)->prepare(Depth::check);
      if (outcome.status == "unsupported") continue;
      EXPECT_EQ(outcome.status, "passed") << fields.dump() << ": " << outcome.reason;
      passed += outcome.status == "passed";
    }
  }
  EXPECT_GE(passed, 12);
}

}  // namespace
}  // namespace d5
