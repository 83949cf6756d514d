// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/roofline.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "d5/core/parallel.hpp"
#include "d5/measure/cache.hpp"
#include "d5/measure/roofline_kernels.hpp"

namespace d5 {
namespace {

Roofline example() {
  Roofline r;
  r.peak_flops = {{"f32", 100e9}, {"f64", 50e9}, {"i8", 400e9}};
  r.bandwidth = {{1024, 200e9}, {4096, 100e9}, {65536, 20e9}};
  return r;
}

TEST(Roofline, InterpolatesInTheLogarithmAndIsExactAtTheNodes) {
  const Roofline r = example();
  for (const auto& [size, rate] : r.bandwidth) EXPECT_EQ(r.bandwidth_at(size), rate);
  EXPECT_NEAR(r.bandwidth_at(2048), 150e9, 1);  // half way from 2^10 to 2^12
  EXPECT_NEAR(r.bandwidth_at(16384), 60e9, 1);  // half way from 2^12 to 2^16
  EXPECT_EQ(r.bandwidth_at(1), 200e9);
  EXPECT_EQ(r.bandwidth_at(0), 200e9);
  EXPECT_EQ(r.bandwidth_at(1e12), 20e9);
}

TEST(Roofline, TheBoundIsTheLargerOfTheTwo) {
  const Roofline r = example();
  EXPECT_DOUBLE_EQ(r.bound_seconds(1e9, 1, 1024, DType::f32), 0.01);
  EXPECT_DOUBLE_EQ(r.bound_seconds(1, 2e9, 65536, DType::f32), 0.1);
  EXPECT_DOUBLE_EQ(r.bound_seconds(1e9, 1, 1024, DType::f64), 0.02);
  EXPECT_EQ(r.bound_seconds(0, 0, 0, DType::f32), 0);
}

TEST(Roofline, TheBoundNeverFallsWhenWorkOrSizeGrows) {
  const Roofline r = example();
  double last = 0;
  for (double work = 1; work < 1e12; work *= 1.7) {
    const double bound = r.bound_seconds(work, work / 10, work / 10, DType::f32);
    EXPECT_GE(bound, last);
    last = bound;
  }
  last = 0;
  for (double size = 1; size < 1e9; size *= 1.3) {
    const double bound = r.bound_seconds(0, 1e6, size, DType::f32);
    EXPECT_GE(bound, last);
    last = bound;
  }
}

TEST(Roofline, NarrowFloatsAreNeverSlowerThanF32AndUnknownTypesHaveNoPeak) {
  Roofline r = example();
  EXPECT_EQ(r.peak(DType::bf16), 100e9);
  EXPECT_EQ(r.peak(DType::f16), 100e9);
  r.peak_flops["bf16"] = 220e9;
  EXPECT_EQ(r.peak(DType::bf16), 220e9);
  EXPECT_EQ(r.peak(DType::i32), 0);
  EXPECT_DOUBLE_EQ(r.bound_seconds(1e18, 2e9, 65536, DType::i32), 0.1);
}

TEST(Roofline, ScaledScalesEveryRate) {
  const Roofline r = example().scaled(0.5, 0.25);
  EXPECT_EQ(r.peak(DType::f32), 50e9);
  EXPECT_EQ(r.bandwidth_at(4096), 25e9);
}

TEST(Roofline, JsonRoundTripAndBrokenJson) {
  Roofline r = example();
  r.threads = 3;
  const Roofline again = roofline_from_json(nlohmann::json::parse(to_json(r).dump()));
  EXPECT_EQ(again.peak_flops, r.peak_flops);
  EXPECT_EQ(again.bandwidth, r.bandwidth);
  EXPECT_EQ(again.threads, 3);

  EXPECT_THROW(roofline_from_json({}), Error);
  auto broken = to_json(r);
  broken["bandwidth"] = "fast";
  EXPECT_THROW(roofline_from_json(broken), Error);
  broken = to_json(r);
  broken["peak_flops"]["f32"] = -1;
  EXPECT_THROW(roofline_from_json(broken), Error);
  broken = to_json(r);
  std::swap(broken["bandwidth"][0], broken["bandwidth"][1]);
  EXPECT_THROW(roofline_from_json(broken), Error);
}

TEST(Roofline, StreamLoopsComputeWhatTheySay) {
  for (const StreamKernel& kernel : usable_stream_kernels()) {
    constexpr int64_t n = 192;
    alignas(64) float a[n], b[n], c[n];
    for (int64_t i = 0; i < n; ++i) a[i] = -1, b[i] = static_cast<float>(i), c[i] = static_cast<float>(2 * i);
    kernel.run(a, b, c, n, 2);
    for (int64_t i = 0; i < n; ++i) {
      const float expected = kernel.name == "read"    ? -1.0f
                             : kernel.name == "triad" ? 2.0f * static_cast<float>(i)
                             : kernel.name == "fill"  ? 1.0f
                                                      : b[i];
      ASSERT_EQ(a[i], expected) << kernel.name << " at " << i;
    }
  }
}

// Orderings that hold on every machine, however busy: no more is asked of a noisy one.
TEST(Roofline, MeasuredHereIsInOrder) {
  const int before = threads();
  const Roofline r = measure_roofline(1, 0.3);
  EXPECT_EQ(threads(), before);
  EXPECT_EQ(r.threads, 1);
  ASSERT_GE(r.bandwidth.size(), 3u);
  EXPECT_EQ(r.bandwidth.front().first, 16384);
  EXPECT_EQ(r.bandwidth.back().first, 4.0 * static_cast<double>(last_level_bytes(1)));
  for (size_t i = 1; i < r.bandwidth.size(); ++i) {
    EXPECT_GT(r.bandwidth[i].first, r.bandwidth[i - 1].first);
    EXPECT_LE(r.bandwidth[i].second, r.bandwidth[i - 1].second);
  }
  EXPECT_GT(r.peak_flops.at("f64"), 1e7);
  EXPECT_GT(r.peak_flops.at("f32"), r.peak_flops.at("f64"));
  for (const PeakKernel& kernel : usable_peak_kernels())
    EXPECT_TRUE(r.peak_flops.contains(std::string(name(kernel.dtype))));
  EXPECT_NO_THROW(roofline_from_json(to_json(r)));
}

TEST(Probe, SeesRatesAndScalesTheRoofline) {
  Probe probe(1);
  EXPECT_GT(probe.peak_flops(DType::f32), 1e7);
  EXPECT_EQ(probe.peak_flops(DType::i64), 0);
#if !defined(__SANITIZE_ADDRESS__)  // whose checks of every access take longer than the access
  EXPECT_GT(probe.bandwidth(16 << 10), probe.bandwidth(1e12));
#endif
  const Roofline measured = example();
  const Roofline now = probe.now(measured, 4096, DType::f32);
  EXPECT_GT(now.peak(DType::f32), 0);
  EXPECT_NEAR(now.peak(DType::f64) / now.peak(DType::f32), 0.5, 1e-9);
  EXPECT_NEAR(now.bandwidth_at(1024) / now.bandwidth_at(4096), 2, 1e-9);
}

// Half of the bytes written is what a copy does. By how much reading or writing alone differ from it is the machine's
// business; a factor of three would be bytes that are counted wrongly.
TEST(Probe, ReadsWritesAndTheirMixAreOfOneOrder) {
  Probe probe(1);
  double most[3] = {};
  for (int round = 0; round < 10; ++round)
    for (const int written : {0, 1, 2}) most[written] = std::max(most[written], probe.bandwidth(1e12, written / 2.0));
  for (const int alone : {0, 2}) {
    EXPECT_LE(most[alone], 3 * most[1]);
    EXPECT_GE(most[alone], most[1] / 3);
  }
}

TEST(Probe, TwoThreadsAreNotMuchMoreThanTwice) {
  const Sharing sharing = probe_core_sharing();
  EXPECT_GT(sharing.ratio, 0);
  EXPECT_LT(sharing.ratio, 4);
  EXPECT_EQ(sharing.cores_shared, usable_cores() > 1 && sharing.ratio < 1.5);
}

}  // namespace
}  // namespace d5
