// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "d5/bench/data_bias.hpp"
#include "d5/bench/data_case.hpp"
#include "d5/bench/data_peers.hpp"
#include "d5/bench/session.hpp"
#include "d5/datasets/classes.hpp"
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

// A folder that is gone at the end.
struct Folder {
  Folder() : path(testing::TempDir() + "d5-data-bench-XXXXXX") {
    if (!::mkdtemp(path.data())) throw Error("no folder");
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

TEST(DataBench, StoresSamplesOnceAndReadsThemFromThere) {
  const Folder folder;
  Json wanted = {{"options", "size=20;height=16;width=24;channels=3"}, {"path", folder.path}, {"batch", 4}};
  const DataSource original = open_data_source(small_case({{"options", wanted["options"]}}));
  for (const auto& [store, decoder] : std::vector<std::pair<std::string, std::string>>{
           {"tar", "png"}, {"tfrecord", "raw"}, {"raw", ""}, {"folder", "png"}, {"npz", "none"}, {"folder", ""}}) {
    wanted["store"] = store;
    wanted["decoder"] = decoder;
    const Json fields = small_case(wanted);
    const DataSource source = open_data_source(fields);
    ASSERT_EQ(source.data->size(), 20) << store;
    EXPECT_GT(source.stored["bytes_per_s"], 0) << store;
    EXPECT_THAT(source.files, testing::Each(testing::StartsWith(folder.path))) << store;
    const auto made = std::filesystem::last_write_time(source.files.front());
    // A folder sorts its samples by class; the others keep the order. The labels say which is which.
    for (Index i = 0; i < 20 && store != "folder"; ++i) {
      const Sample one = source.data->at(i), other = original.data->at(i);
      ASSERT_EQ(one[0].shape(), other[0].shape()) << store;
      EXPECT_EQ(std::memcmp(one[0].data(), other[0].data(), one[0].bytes()), 0) << store << " " << i;
      EXPECT_EQ(one[1].values<int64_t>()[0], other[1].values<int64_t>()[0]) << store;
    }
    EXPECT_EQ(std::filesystem::last_write_time(open_data_source(fields).files.front()), made) << store;
    const Outcome prepared = bench_of(fields).open(fields)->prepare(Depth::check);
    EXPECT_EQ(prepared.status, "passed") << store << prepared.reason;
    EXPECT_EQ(prepared.details["stored"]["path"], source.stored["path"]);
  }
}

TEST(DataBench, RefusesAPathThatIsNoFolder) {
  EXPECT_THAT(
      [] {
        small_case({{"store", "raw"}, {"path", "/no/such/folder"}});
      },
      testing::ThrowsMessage<UsageError>(HasSubstr("path '/no/such/folder' is no folder")));
}

TEST(DataBench, AStoreThatCannotHoldTheSamplesIsUnsupported) {
  const Folder folder;
  const Json fields = small_case({{"store", "cifar"}, {"path", folder.path}, {"options", "size=20;height=8;width=8"}});
  const Outcome outcome = bench_of(fields).open(fields)->prepare(Depth::check);
  EXPECT_EQ(outcome.status, "unsupported");
  EXPECT_THAT(outcome.reason, HasSubstr("3x32x32"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));  // nothing half-made stays
}

TEST(DataBench, ProcessesReadAtTheSameTime) {
  const Json fields = small_case({{"processes", 2}, {"threads", 1}, {"options", "size=256"}});
  const Bench& bench = bench_of(fields);
  const auto session = bench.open(fields);
  const Outcome prepared = session->prepare(Depth::measure);
  ASSERT_EQ(prepared.status, "passed") << prepared.reason;
  const SliceResult slice = session->run({.samples = 20, .batch = 5, .rewarm = 1});
  double alone = 0;
  for (const double seconds : slice.seconds) alone += 5 * seconds;
  EXPECT_GT(slice.probe["all_samples_per_s"].get<double>(), 20 * 5 * 16 / (1.5 * alone));
  EXPECT_EQ(session->finish().status, "passed");
  EXPECT_THROW(small_case({{"processes", 0}}), FieldError);
}

TEST(DataPeers, OneThatEndsIsAnError) {
  DataPeers good(2, [](int) { return [] { return 3; }; });
  good.start();
  const int64_t before = good.samples();
  while (good.samples() == before) {
  }
  good.pause();
  DataPeers bad(1, [](int) { return []() -> int64_t { throw Error("planted"); }; });
  EXPECT_THROW(bad.start(), Error);
}

TEST(DataBench, SamplesThatCannotBeReadEndTheCaseOrAreCounted) {
  const Folder folder;
  const std::string path = folder.path + "/x.bin";
  write_container("cifar", *generate("generated-images", {{"size", int64_t{32}}, {"channels", int64_t{3}}}), path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(5 * 3073).put(77);  // a class that is none
  file.close();
  Json fields = small_case({{"dataset", path}, {"batch", 8}, {"access", "shuffle"}});
  EXPECT_THROW(bench_of(fields).open(fields)->prepare(Depth::check), SampleError);
  fields["on_error"] = "skip";
  const auto session = bench_of(fields).open(fields);
  const Outcome prepared = session->prepare(Depth::measure);
  ASSERT_EQ(prepared.status, "passed") << prepared.reason;
  EXPECT_EQ(prepared.details["check"]["compared"], 31);
  const SliceResult slice = session->run({.samples = 4, .batch = 2, .rewarm = 1});
  const Outcome finished = session->finish();
  EXPECT_GE(finished.details["skipped"], 2);  // one an epoch of four batches
  EXPECT_THAT(finished.details["first_skipped"][0].get<std::string>(), HasSubstr("record 5"));
  CaseResult result{.fields = fields, .prepared = {prepared.details}, .finished = {finished.details}};
  result.probes = {slice.probe};
  result.samples = {.time_s = slice.seconds, .start_s = slice.start, .launch = {0, 0, 0, 0}, .round = {0, 0, 0, 0}};
  const Record record = bench_of(fields).record(result);
  // Eight batches are two epochs of 31 samples.
  EXPECT_NEAR(record.metric("throughput")->median * record.metric("time")->median, 62.0 / 8, 1e-9);
  EXPECT_THAT(record.warnings, testing::Contains(HasSubstr("were skipped; the first:")));
}

TEST(DataBench, EveryEpochOfASmallSetIsCold) {
  const Folder folder;
  const std::string path = folder.path + "/x.bin";
  write_container("cifar", *generate("generated-images", {{"size", int64_t{640}}, {"channels", int64_t{3}}}), path);
  for (const char* access : {"ordered", "shuffle"}) {
    const Json fields = small_case({{"dataset", path}, {"cache", "cold"}, {"access", access}});
    const auto session = bench_of(fields).open(fields);
    const Outcome prepared = session->prepare(Depth::measure);
    if (prepared.status == "unsupported") GTEST_SKIP() << prepared.reason;
    ASSERT_EQ(prepared.status, "passed") << prepared.reason;
    EXPECT_EQ(prepared.details["cold"]["of_an_epoch"], 40);
    const auto batches = prepared.details["cold"]["batches"].get<Index>();
    const SliceResult slice = session->run({.samples = 5, .batch = 1, .rewarm = 1});
    ASSERT_EQ(slice.seconds.size(), 5u);
    EXPECT_EQ(slice.probe["samples"], 5 * 16 * batches);
    if (batches == 40 && slice.probe.contains("bytes_from_storage")) {
      EXPECT_GT(slice.probe["bytes_from_storage"].get<double>(), 0.95 * 5 * 640 * 3073);
    }
    EXPECT_EQ(session->finish().status, "passed");
  }
}

TEST(DataBench, WhatLiesInMemoryIsNotCold) {
  const Folder folder;
  const std::string path = folder.path + "/x-images-idx3-ubyte.gz";
  write_container("idx", *generate("generated-images", {{"size", int64_t{32}}}), path);
  const Json fields = small_case({{"dataset", path}, {"cache", "cold"}, {"batch", 8}});
  const Outcome outcome = bench_of(fields).open(fields)->prepare(Depth::measure);
  EXPECT_EQ(outcome.status, "unsupported");
  EXPECT_THAT(outcome.reason, HasSubstr("unpacked into memory"));
  const DataSource source = open_data_source(fields);
  EXPECT_TRUE(source.files.empty());
  EXPECT_EQ(source.named, std::vector{path});
}

// Of a file of many samples the case takes a few: what one takes in the file is that of all.
TEST(DataBench, AFewSamplesOfAFileAreNotAllOfIt) {
  const Folder folder;
  const std::string path = folder.path + "/x.bin";
  write_container("cifar", *generate("generated-images", {{"size", int64_t{640}}, {"channels", int64_t{3}}}), path);
  const DataSource source = open_data_source(small_case({{"dataset", path}, {"samples", 20}}));
  EXPECT_EQ(source.data->size(), 20);
  EXPECT_EQ(source.in_files, 640);
}

TEST(DataBench, AColdCaseThatReadNothingHasNoSpeed) {
  const Json fields = small_case({{"cache", "cold"}, {"batch", 10}});
  CaseResult result{.fields = fields};
  result.status = "passed";
  result.prepared = {Json{{"data", {{"batch", 10}, {"sample_bytes", 100}}}}};
  result.samples = {.time_s = {1, 1}, .start_s = {0, 1}, .launch = {0, 0}, .round = {0, 0}};
  const auto record = [&](Json probe) {
    probe.update(Json{{"samples", 20}, {"batches", 2}, {"samples_per_s", 100.0}, {"bytes_needed", 2000.0}});
    probe["sample_file_bytes"] = 100;
    result.probes = {probe};
    return bench_of(fields).record(result);
  };
  EXPECT_EQ(record({{"bytes_from_storage", 2000.0}}).status, "passed");
  const Record nothing = record({{"bytes_from_storage", 0.0}});
  EXPECT_EQ(nothing.status, "failed");
  EXPECT_THAT(nothing.reason, HasSubstr("not cold"));
  EXPECT_TRUE(nothing.samples.time_s.empty());
  const Record untold = record({});
  EXPECT_EQ(untold.status, "passed");
  EXPECT_THAT(untold.warnings, testing::Contains(HasSubstr("does not tell")));
}

TEST(DataBench, RefusesWrongFields) {
  EXPECT_THROW(small_case({{"decoder", "jpeg"}}), FieldError);
  EXPECT_THROW(small_case({{"store", "tar"}, {"decoder", "gif"}}), FieldError);
  EXPECT_THROW(small_case({{"access", "shuffled"}}), FieldError);
  EXPECT_THROW(small_case({{"batch", 0}}), FieldError);
  EXPECT_THROW(small_case({{"augment", "krop"}}), FieldError);
  EXPECT_THROW(small_case({{"bach", 3}}), FieldError);
  const Json cold = small_case({{"cache", "cold"}});
  const Outcome refused = bench_of(cold).open(cold)->prepare(Depth::check);
  EXPECT_EQ(refused.status, "unsupported");
  EXPECT_TRUE(refused.details.is_object());  // as the protocol wants it
}

}  // namespace
}  // namespace d5
