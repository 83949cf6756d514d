// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "d5/core/rng.hpp"

namespace d5 {
namespace {

using ::testing::HasSubstr;

// A measured case of level 1 with `n` independent samples between 1 and 2 seconds.
CaseResult measured(size_t n, int64_t batched = 1) {
  Json fields = {{"kind", "net"}, {"network", "lenet"}, {"backend", "reference"}, {"batch", 4}};
  CaseResult result;
  result.fields = bench_of(fields).complete(fields);
  const Rng rng(1);
  for (size_t i = 0; i < n; ++i) {
    result.samples.time_s.push_back(1 + rng.uniform(i));
    result.samples.start_s.push_back(static_cast<double>(i));
    result.samples.launch.push_back(0);
    result.samples.round.push_back(0);
  }
  result.samples.batch = batched;
  const Json cost = {{"flops", 1e9}, {"bytes", 1e6}};
  result.prepared = {{{"cost", cost}, {"memory", {{"planned_bytes", 1000}, {"peak_bytes", 3000}}}},
                     {{"cost", cost}, {"memory", {{"planned_bytes", 1000}, {"peak_bytes", 5000}}}}};
  result.finished = {{{"metrics", {{"energy", {{"joules", 40.0}, {"iterations", 5}}}}}}};
  return result;
}

Record record_of(const CaseResult& result) { return bench_of(result.fields).record(result); }

// Two-sided 95 %: the published counts (for p90: 0.9^35 = 0.0250..., 0.9^36 = 0.0225).
TEST(NetMetrics, SamplesThatAQuantileNeeds) {
  EXPECT_EQ(samples_for_quantile(0.5), 6);
  EXPECT_EQ(samples_for_quantile(0.9), 36);
  EXPECT_EQ(samples_for_quantile(0.95), 72);
  EXPECT_EQ(samples_for_quantile(0.05), 72);
  EXPECT_EQ(samples_for_quantile(0.99), 368);
}

TEST(NetMetrics, PercentilesWhereSamplesSuffice) {
  const Record many = record_of(measured(2000));
  EXPECT_NEAR(many.metric("latency_p50")->median, 1.5, 0.05);
  EXPECT_NEAR(many.metric("latency_p90")->median, 1.9, 0.05);
  EXPECT_NEAR(many.metric("latency_p99")->median, 1.99, 0.02);
  const auto interval = many.metric("latency_p99")->ci95;
  ASSERT_TRUE(interval);
  EXPECT_LT(interval->first, 1.99);
  EXPECT_GT(interval->second, 1.985);
  EXPECT_FALSE(many.details.contains("unavailable"));

  const Record few = record_of(measured(100));
  EXPECT_TRUE(std::isfinite(few.metric("latency_p50")->median));
  EXPECT_TRUE(std::isnan(few.metric("latency_p99")->median));
  EXPECT_THAT(few.details["unavailable"]["latency_p99"].get<std::string>(), HasSubstr("needs 368"));
  EXPECT_FALSE(few.details["unavailable"].contains("latency_p90"));
}

TEST(NetMetrics, MeansOfSeveralStepsHaveNoPercentiles) {
  const Record record = record_of(measured(2000, 16));
  for (const char* name : {"latency_p50", "latency_p90", "latency_p99"}) {
    EXPECT_TRUE(std::isnan(record.metric(name)->median));
    EXPECT_THAT(record.details["unavailable"][name].get<std::string>(), HasSubstr("mean of 16 steps"));
  }
  EXPECT_TRUE(std::isfinite(record.metric("throughput")->median));
}

TEST(NetMetrics, MemoryEnergyAndThroughput) {
  CaseResult result = measured(400);
  const Record record = record_of(result);
  EXPECT_EQ(record.metric("memory_planned")->median, 1000);
  EXPECT_EQ(record.metric("memory_peak")->median, 4000);  // over launches
  EXPECT_EQ(record.metric("energy_per_sample")->median, 40.0 / 5 / 4);
  const Metric *time = record.metric("time"), *rate = record.metric("throughput");
  EXPECT_DOUBLE_EQ(rate->median, 4 / time->median);
  EXPECT_DOUBLE_EQ(rate->ci95->first, 4 / time->ci95->second);

  result.finished = {{{"metrics", {{"energy", {{"unavailable", "no counter"}}}}}}};
  result.prepared[0]["memory"] =
      result.prepared[1]["memory"] = {{"planned_bytes", 1}, {"peak_unavailable", "a device"}};
  const Record without = record_of(result);
  EXPECT_TRUE(std::isnan(without.metric("energy_per_sample")->median));
  EXPECT_EQ(without.details["unavailable"]["energy_per_sample"], "no counter");
  EXPECT_EQ(without.details["unavailable"]["memory_peak"], "a device");
  // What is not known survives being written and read.
  EXPECT_TRUE(std::isnan(record_from_line(to_line(without)).metric("memory_peak")->median));
}

TEST(NetMetrics, NothingTimedNothingSaid) {
  CaseResult result = measured(0);
  EXPECT_EQ(record_of(result).metric("latency_p50"), nullptr);
  result = measured(400);
  result.status = "failed";
  EXPECT_EQ(record_of(result).metric("memory_peak"), nullptr);
}

}  // namespace
}  // namespace d5
