// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "d5/bench/data_bias.hpp"
#include "d5/bench/data_case.hpp"
#include "d5/bench/session.hpp"
#include "d5/datasets/generators.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;

// R: chisq.test(c(8, 12, 10, 30)) gives X-squared = 20.533, df = 3, p-value = 0.0001316.
TEST(DataBias, AgreesWithPearsonsTest) {
  const ClassBias bias = class_bias({8, 12, 10, 30});
  EXPECT_NEAR(bias.chi_square, 308.0 / 15, 1e-12);
  EXPECT_NEAR(bias.p, 0.0001316, 5e-8);
  EXPECT_DOUBLE_EQ(bias.largest_share, 0.5);
  EXPECT_EQ(class_bias({5, 5}).p, 1);
  EXPECT_THROW(class_bias({5}), Error);
  EXPECT_THROW(class_bias({0, 0}), Error);
}

TEST(DataBias, CountsLabelsAndNamesWrongOnes) {
  const std::vector<Field> fields{{"image", DType::u8, Shape{2}, {}}, {"label", DType::u8, Shape{}, 3}};
  EXPECT_EQ(class_field(fields), size_t{1});
  EXPECT_FALSE(class_field({fields[0]}));
  std::vector<Index> counts(3);
  count_classes(Tensor::from<uint8_t>({4}, {0, 2, 2, 1}), counts);
  EXPECT_EQ(counts, (std::vector<Index>{1, 1, 2}));
  EXPECT_THROW(count_classes(Tensor::from<uint8_t>({1}, {3}), counts), SampleError);
}

TEST(DataCase, AugmentationsAreStepsWithValues) {
  const auto steps = parse_augmentations("crop padding=4 + flip + normalise mean=0.5/0.25/0.1");
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].name, "crop");
  EXPECT_EQ(steps[0].values.integer("padding", 0), 4);
  EXPECT_EQ(steps[2].values.reals("mean"), (std::vector<double>{0.5, 0.25, 0.1}));
  EXPECT_TRUE(parse_augmentations("").empty());
  EXPECT_THROW(parse_augmentations("crop pading=4"), UsageError);
  EXPECT_THROW(parse_augmentations("crop 4"), UsageError);
  EXPECT_THROW(parse_augmentations("crop padding=four"), UsageError);
  EXPECT_THROW(parse_augmentations("krop"), UsageError);
}

Json small_case(Json more = Json::object()) {
  Json fields = {{"kind", "data"}, {"batch", 16}, {"threads", 2}};
  fields.update(more);
  return bench_of(fields).complete(fields);
}

TEST(DataBench, ChecksAndMeasuresACase) {
  const Json fields = small_case({{"augment", "flip + normalise"}});
  const Bench& bench = bench_of(fields);
  const auto session = bench.open(fields);
  const Outcome prepared = session->prepare(Depth::measure);
  EXPECT_EQ(prepared.status, "passed") << prepared.reason;
  EXPECT_EQ(prepared.details["check"]["compared"], 8 * 16);
  EXPECT_EQ(prepared.details["bias"]["samples"], 8 * 16);
  CaseResult result{.fields = fields, .prepared = {prepared.details}};
  const SliceResult slice = session->run({.samples = 5, .batch = 2, .rewarm = 1});
  ASSERT_EQ(slice.seconds.size(), 5u);
  result.probes = {slice.probe};
  result.samples = {
      .time_s = slice.seconds, .start_s = slice.start, .launch = {0, 0, 0, 0, 0}, .round = {0, 0, 0, 0, 0}};
  result.finished = {session->finish().details};
  const Record record = bench.record(result);
  EXPECT_EQ(slice.probe["samples"], 5 * 2 * 16);
  ASSERT_NE(record.metric("throughput"), nullptr);
  EXPECT_NEAR(record.metric("throughput")->median * record.metric("time")->median, 16, 1e-9);
  ASSERT_TRUE(record.bound);
  EXPECT_GT(record.bound->share, 0);
  EXPECT_THAT(record.rerun, HasSubstr("d5 data bench generated-images"));
  EXPECT_THAT(record.rerun, HasSubstr("--batch 16"));
}

TEST(DataBench, ReadsFilesAgainstTheirStorage) {
  const std::string path = testing::TempDir() + "d5-data-bench.raw";
  write_container("raw",
                  *generate("generated-images", {{"size", int64_t{64}}, {"height", int64_t{8}}, {"width", int64_t{8}}}),
                  path);
  const Json fields = small_case({{"dataset", path}, {"container", "raw"}, {"access", "ordered"}, {"batch", 8}});
  const auto session = bench_of(fields).open(fields);
  const Outcome prepared = session->prepare(Depth::measure);
  EXPECT_EQ(prepared.status, "passed") << prepared.reason;
  EXPECT_EQ(prepared.details["data"]["samples"], 64);
  EXPECT_EQ(prepared.details["data"]["files"], 1);
  const SliceResult slice = session->run({.samples = 3, .batch = 1, .rewarm = 1});
  EXPECT_GT(slice.probe.value("storage_bytes_per_s", 0.0), 0);
  EXPECT_EQ(session->finish().status, "passed");
  std::remove(path.c_str());
}

TEST(DataBench, RefusesWrongFields) {
  EXPECT_THROW(small_case({{"access", "shuffled"}}), FieldError);
  EXPECT_THROW(small_case({{"batch", 0}}), FieldError);
  EXPECT_THROW(small_case({{"augment", "krop"}}), FieldError);
  EXPECT_THROW(small_case({{"bach", 3}}), FieldError);
  const Json cold = small_case({{"cache", "cold"}});
  EXPECT_EQ(bench_of(cold).open(cold)->prepare(Depth::check).status, "unsupported");
}

}  // namespace
}  // namespace d5
