// SPDX-License-Identifier: Apache-2.0
// What becomes of a result: share of the bound, warnings, and no speed without a check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "d5/bench/session.hpp"

namespace d5 {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Two launches of two rounds with three samples each, all of `seconds`; 1 GFLOP and 1 MB at 100 GFLOP/s and 10 GB/s.
CaseResult result_of(double seconds, const std::string& backend = "onednn") {
  CaseResult result;
  const Json fields = {{"kind", "op"}, {"operator", "Gemm"}, {"backend", backend}, {"m", 8}};
  result.fields = bench_of(fields).complete(fields);
  result.prepared = {{{"cost", {{"flops", 1e9}, {"bytes", 1e6}}},
                      {"kernels", {{"Gemm", "ref:any"}}},
                      {"check", {{"linf", 0.5}, {"l1", 1.0}, {"l2", 0.7}, {"compared", 64}}}}};
  for (int launch = 0; launch < 2; ++launch)
    for (int round = 0; round < 2; ++round) {
      for (int sample = 0; sample < 3; ++sample) {
        result.samples.time_s.push_back(seconds);
        result.samples.start_s.push_back(static_cast<double>(result.samples.time_s.size()));
        result.samples.launch.push_back(launch);
        result.samples.round.push_back(round);
      }
      result.probes.push_back({{"peak_flops", 1e11}, {"bandwidth", 1e10}});
    }
  return result;
}

TEST(OpRecord, TheBoundIsTheLargerOfArithmeticAndTraffic) {
  const CaseResult result = result_of(0.0125);
  const Record record = bench_of(result.fields).record(result);
  ASSERT_TRUE(record.bound);
  EXPECT_DOUBLE_EQ(record.bound->value, 0.01);  // 1e9 / 1e11 s of arithmetic against 1e6 / 1e10 s of traffic
  EXPECT_DOUBLE_EQ(record.bound->share, 0.8);
  EXPECT_DOUBLE_EQ(record.metric("gflops")->median, 80);
  EXPECT_DOUBLE_EQ(record.metric("error_linf")->median, 0.5);
  EXPECT_EQ(record.metric("error_linf")->n, 64u);
  EXPECT_EQ(record.rerun, "d5 op Gemm --backend onednn --m 8");
}

TEST(OpRecord, ALibraryFarBelowTheRooflineIsNamedWithItsKernel) {
  const CaseResult slow = result_of(0.5);
  EXPECT_THAT(bench_of(slow.fields).record(slow).warnings,
              Contains(HasSubstr("far below the roofline (2.0 %): the kernel is {\"Gemm\":\"ref:any\"}")));
  const CaseResult oracle = result_of(0.5, "reference");  // slow by its nature
  EXPECT_THAT(bench_of(oracle.fields).record(oracle).warnings, Not(Contains(HasSubstr("far below"))));
  const CaseResult fine = result_of(0.02);
  EXPECT_THAT(bench_of(fine.fields).record(fine).warnings, Not(Contains(HasSubstr("roofline"))));
}

TEST(OpRecord, FasterThanTheBoundIsAWarning) {
  const CaseResult result = result_of(0.005);
  EXPECT_THAT(bench_of(result.fields).record(result).warnings, Contains(HasSubstr("200 % of the roofline")));
}

TEST(OpRecord, WhatFailedHasNoSpeed) {
  CaseResult result = result_of(0.0125);
  result.status = "failed";
  result.reason = "y0[3] is 1, expected 2 +- 0";
  const Record record = bench_of(result.fields).record(result);
  EXPECT_EQ(record.metric("time"), nullptr);
  EXPECT_FALSE(record.bound);
  EXPECT_THAT(record.samples.time_s, IsEmpty());
  EXPECT_EQ(record.reason, result.reason);
}

}  // namespace
}  // namespace d5
