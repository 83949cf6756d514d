// SPDX-License-Identifier: Apache-2.0
// Metrics beyond the usual ones, from the session that feeds them to the record that shows them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "d5/backends/kernel.hpp"
#include "d5/bench/session.hpp"
#include "d5/measure/metric.hpp"

namespace d5 {
namespace {

using testing::Contains;
using testing::HasSubstr;

// A right product whose last bit depends on the call, as sums in a changing order would have it. Whole numbers stay.
class Wavering final : public Kernel {
 public:
  void prepare(KernelSetup& setup) override {
    m_ = setup.inputs[0].shape[0];
    k_ = setup.inputs[0].shape[1];
    n_ = setup.outputs[0].shape[1];
  }
  void bind(int, const Buffers& buffers) override { buffers_ = buffers; }
  void forward(int) override {
    const auto *a = static_cast<const float*>(buffers_.inputs[0]), *b = static_cast<const float*>(buffers_.inputs[1]);
    auto* y = static_cast<float*>(buffers_.outputs[0]);
    ++calls_;
    for (Index i = 0; i < m_ * n_; ++i) {
      double sum = 0;
      for (Index l = 0; l < k_; ++l) sum += static_cast<double>(a[i / n_ * k_ + l]) * b[l * n_ + i % n_];
      y[i] = static_cast<float>(sum);
      if (calls_ % 2 == 0 && sum != std::floor(sum)) y[i] = std::nextafter(y[i], 100.0f);
    }
  }
  std::string implementation() const override { return "wavering"; }

 private:
  Index m_ = 0, n_ = 0, k_ = 0;
  Buffers buffers_;
  int calls_ = 0;
};

Record record_of(const std::string& kernel, const std::vector<std::string>& names, const std::string& prefix) {
  const Json given = {
      {"kind", "op"}, {"operator", "Gemm"}, {"backend", "reference"}, {"kernel", kernel}, {"m", 4}, {"n", 5},
      {"k", 6},       {"bias", false}};
  CaseResult result;
  result.fields = bench_of(given).complete(given);
  result.metrics = names;
  const auto session = bench_of(given).open(result.fields);
  session->want({names, prefix});
  const Outcome outcome = session->prepare(Depth::check);
  result.status = outcome.status;
  result.reason = outcome.reason;
  result.prepared = {outcome.details};
  return bench_of(given).record(result);
}

TEST(Meters, RepeatabilityTellsAWaveringKernelFromASteadyOne) {
  const Record wavering = record_of("wavering", {"repeatability"}, "");
  ASSERT_EQ(wavering.status, "passed") << wavering.reason;
  EXPECT_GT(wavering.metric("repeatability")->median, 0);
  EXPECT_LT(wavering.metric("repeatability")->median, 1e-12);  // (2^-23)^2 at most
  EXPECT_EQ(record_of("builtin", {"repeatability"}, "").metric("repeatability")->median, 0);
}

TEST(Meters, MapsAreWrittenAndNamedInTheRecord) {
  std::string folder = (std::filesystem::temp_directory_path() / "d5-meters-XXXXXX").string();
  ASSERT_TRUE(mkdtemp(folder.data()));
  const Record record = record_of("builtin", {"difference_map", "variance_map"}, folder + "/case");
  EXPECT_EQ(record.details["metrics"]["difference_map"]["files"], Json({"case-difference_map-y0.svg"}));
  EXPECT_TRUE(std::filesystem::exists(folder + "/case-variance_map-y0.svg"));
  EXPECT_EQ(record.metric("difference_map")->median, record.metric("error_linf")->median);
  std::filesystem::remove_all(folder);
}

class NeverThere final : public Meter {
 public:
  std::string about() const override { return "of a counter that nobody has"; }
  std::string unit() const override { return "1"; }
  std::optional<std::string> why_not() const override { return "nobody has built one"; }
  std::optional<Metric> value(const Measured&) const override { return Metric{.unit = unit()}; }
};

TEST(Meters, AnUnavailableOneSaysWhyAndTheCaseStillPasses) {
  const Record record = record_of("builtin", {"never_there", "time"}, "");
  EXPECT_EQ(record.status, "passed");
  EXPECT_EQ(record.metric("never_there"), nullptr);
  EXPECT_THAT(record.warnings, Contains("never_there: unavailable: nobody has built one"));
  EXPECT_EQ(record.details["metrics"]["never_there"]["unavailable"], "nobody has built one");
  EXPECT_THAT(record.warnings, Not(Contains(HasSubstr("time: unavailable"))));  // a usual one that a check has not
}

class Throws final : public Meter {
 public:
  std::string about() const override { return "of nothing"; }
  std::string unit() const override { return "1"; }
  void see(const CheckedResult&, int) override { throw std::runtime_error("cannot look"); }
  std::optional<Metric> value(const Measured&) const override { return Metric{.unit = unit()}; }
};

TEST(Meters, OneThatThrowsIsUnavailableAndTheCaseStillPasses) {
  const Record record = record_of("builtin", {"throws"}, "");
  EXPECT_EQ(record.status, "passed") << record.reason;
  EXPECT_THAT(record.warnings, Contains("throws: unavailable: see throws: cannot look"));
}

}  // namespace
D5_REGISTER_KERNEL(reference, "Gemm", "wavering", Wavering);
D5_REGISTER(metrics, "never_there", NeverThere);
D5_REGISTER(metrics, "throws", Throws);
}  // namespace d5
