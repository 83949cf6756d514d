// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "d5/core/rng.hpp"
#include "d5/measure/energy_counter.hpp"
#include "d5/measure/metric.hpp"
#include "d5/measure/metrics/heat_map.hpp"

namespace d5 {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Meter> meter(const std::string& name) { return registered<metrics>(name).make(); }

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "d5-metric-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path_ / name).rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path_;
};

// Ten times each of 1 to 10 ms, shuffled: their median is 5.5 ms.
Measured hundred_times() {
  Measured m;
  std::vector<int64_t> order(100);
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, Rng(1));
  std::vector<double> seconds;
  for (const int64_t i : order) seconds.push_back(0.001 * static_cast<double>(1 + i / 10));
  m.time = summarize(seconds);
  m.flops = 11e6;
  m.bytes = 22e6;
  return m;
}

TEST(Metrics, TimeAndItsRates) {
  const Measured m = hundred_times();
  const Metric time = *meter("time")->value(m);
  EXPECT_EQ(time.unit, "s");
  EXPECT_DOUBLE_EQ(time.median, 0.0055);
  const Metric gflops = *meter("gflops")->value(m);
  EXPECT_DOUBLE_EQ(gflops.median, 2.0);
  ASSERT_TRUE(time.ci95 && gflops.ci95);
  EXPECT_DOUBLE_EQ(gflops.ci95->first, 0.011 / time.ci95->second);
  EXPECT_DOUBLE_EQ(gflops.ci95->second, 0.011 / time.ci95->first);
  EXPECT_DOUBLE_EQ(meter("bandwidth")->value(m)->median, 4.0);
  EXPECT_TRUE(meter("time")->smaller_is_better());
  EXPECT_FALSE(meter("gflops")->smaller_is_better());
}

TEST(Metrics, WhatWasNotMeasuredHasNoValue) {
  for (const std::string& name : registry_names(metrics::kind)) EXPECT_FALSE(meter(name)->value({})) << name;
  Measured no_flops = hundred_times();
  no_flops.flops = 0;
  EXPECT_FALSE(meter("gflops")->value(no_flops));
}

TEST(Metrics, ErrorsAreThoseOfTheCheck) {
  Measured m;
  m.check = {{"linf", 0.5}, {"l1", 2.0}, {"l2", 1.25}, {"compared", 40}};
  EXPECT_EQ(meter("error_linf")->value(m)->median, 0.5);
  EXPECT_EQ(meter("error_l1")->value(m)->median, 2.0);
  EXPECT_EQ(meter("error_l2")->value(m)->median, 1.25);
  EXPECT_EQ(meter("error_l2")->value(m)->n, 40u);
}

TEST(Metrics, ShareIsTheMedianOverSlices) {
  Measured m;
  m.shares = {0.5, 0.9, 0.7};
  EXPECT_EQ(meter("share")->value(m)->median, 0.7);
  EXPECT_FALSE(meter("share")->value(m)->ci95);  // three slices are too few
}

Metric over_runs(const std::string& name, const std::vector<std::vector<float>>& runs, const Folder& folder) {
  const auto one = meter(name);
  const std::vector<double> expected(runs[0].begin(), runs[0].end()), tolerance(runs[0].size(), 1.0);
  for (size_t run = 0; run < runs.size(); ++run) {
    const Tensor actual = Tensor::from<float>({static_cast<Index>(runs[run].size())}, runs[run]);
    one->see({"y0", actual, {}, expected, tolerance}, static_cast<int>(run));
  }
  Measured m;
  m.reports = {nlohmann::json::parse(one->report(folder.path("p-" + name)).dump())};  // as it travels
  return *one->value(m);
}

// Variance of 3, 5 and 7 is 4.
TEST(Metrics, RepeatabilityIsTheLargestVarianceOfAnElement) {
  const Folder folder;
  EXPECT_EQ(over_runs("repeatability", {{1, 3}, {1, 5}, {1, 7}}, folder).median, 4.0);
  EXPECT_EQ(over_runs("repeatability", {{1, 0.1f}, {1, 0.1f}}, folder).median, 0.0);
  EXPECT_EQ(over_runs("repeatability", {{1, NAN}, {1, NAN}}, folder).median, 0.0);
  EXPECT_EQ(over_runs("repeatability", {{1, 2}, {1, NAN}}, folder).median, INFINITY);
  EXPECT_EQ(over_runs("variance_map", {{1, 3}, {1, 5}, {1, 7}}, folder).median, 4.0);
  EXPECT_THAT(folder.read("p-variance_map-y0.svg"), HasSubstr("variance of y0: 1 x 2, largest 4"));
}

TEST(Metrics, TheDifferenceMapShowsWhere) {
  const Folder folder;
  const auto one = meter("difference_map");
  const Tensor actual = Tensor::from<float>({2, 3}, {0, 1, 2, 3, 4.5f, 5});
  const std::vector<Index> at{0, 4};  // a sample
  const std::vector<double> expected{0, 4}, tolerance{1, 1};
  one->see({"gradient of x1", actual, at, expected, tolerance}, 0);
  const nlohmann::json report = one->report(folder.path("p"));
  EXPECT_EQ(report["files"], nlohmann::json({"p-gradient-of-x1.svg"}));
  Measured m;
  m.reports = {report};
  EXPECT_EQ(one->value(m)->median, 0.5);
  EXPECT_EQ(one->value(m)->n, 2u);
  const std::string svg = folder.read("p-gradient-of-x1.svg");
  // Row 1, column 1 is the dark one; what was not sampled is not drawn.
  EXPECT_THAT(svg, HasSubstr("<rect x=\"8\" y=\"32\" width=\"8\" height=\"8\" fill=\"#000000\"/>"));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"0\" y=\"24\" width=\"8\" height=\"8\" fill=\"#d8e8f8\"/>"));
  EXPECT_EQ(svg.find("x=\"16\""), std::string::npos);
}

TEST(HeatMap, LargeTensorsShareCellsAndKeepTheLargest) {
  HeatMap map({1000, 1000});
  map.add(0, 1.0);
  map.add(1, 3.0);  // the same cell
  map.add(999'999, NAN);
  EXPECT_EQ(map.largest(), INFINITY);
  const std::string svg = map.svg("x");
  EXPECT_THAT(svg, HasSubstr("<rect x=\"0\" y=\"24\" width=\"8\" height=\"8\" fill=\"#000000\"/>"));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"504\" y=\"528\" width=\"8\" height=\"8\" fill=\"#ff00ff\"/>"));
}

TEST(Energy, CountsPackagesOnceAndSeesAWrap) {
  const Folder folder;
  const auto package = [&](const std::string& name, const std::string& now) {
    folder.write(name + "/energy_uj", now + "\n");
    folder.write(name + "/max_energy_range_uj", "1000000\n");
  };
  package("intel-rapl:0", "900000");
  package("intel-rapl:1", "100");
  package("intel-rapl:0:0", "500");  // a part of package 0
  const EnergyCounter counter(folder.path(""));
  EXPECT_FALSE(counter.why_not());
  const auto from = counter.read();
  package("intel-rapl:0", "100000");  // wrapped: 200000 uJ
  package("intel-rapl:1", "300100");
  EXPECT_NEAR(counter.joules(from, counter.read()), 0.5, 1e-12);
}

TEST(Energy, SaysWhyThereIsNone) {
  const Folder folder;
  EXPECT_THAT(*EnergyCounter(folder.path("nothing")).why_not(), HasSubstr("shows no energy counter"));
  folder.write("intel-rapl:0/name", "package-0\n");
  EXPECT_THAT(*EnergyCounter(folder.path("")).why_not(), HasSubstr("energy_uj cannot be read"));
}

TEST(Energy, IsPerIterationAndTheMedianOverLaunches) {
  Measured m;
  for (const double joules : {1.0, 2.0, 6.0}) m.reports.push_back({{"joules", joules}, {"iterations", 100}});
  EXPECT_DOUBLE_EQ(meter("energy")->value(m)->median, 0.02);
  EXPECT_DOUBLE_EQ(meter("device_energy")->value(m)->median, 0.02);
}

}  // namespace
}  // namespace d5
