// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/loader.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "counting.hpp"
#include "d5/datasets/tensor_dataset.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<const Sampler> sampler(const std::string& name, Index n, uint64_t seed = 1) {
  return make_sampler(name, n, seed);
}

struct Seen {
  Index epoch, number;
  std::vector<Index> samples;
  std::vector<float> values;
  std::vector<int64_t> labels;
  bool operator==(const Seen&) const = default;
};
Seen look(const Batch& batch) {
  const auto values = batch.fields[0].values<float>();
  const auto labels = batch.fields[1].values<int64_t>();
  return {batch.epoch, batch.number, batch.samples, {values.begin(), values.end()}, {labels.begin(), labels.end()}};
}
std::vector<Seen> all_of(Loader& loader) {
  std::vector<Seen> seen;
  while (const Batch* batch = loader.next()) seen.push_back(look(*batch));
  return seen;
}

// Notes what it is told to expect.
class Expecting final : public Dataset {
 public:
  const std::vector<Field>& fields() const override { return data_.fields(); }
  Index size() const override { return data_.size(); }
  void read(Index i, Sample& into) const override {
    data_.read(i, into);
    EXPECT_TRUE(++read_ <= 2 || expected.contains(i)) << i;
  }
  void expect(Index i) const override { expected.insert(i); }
  std::string where(Index i) const override { return data_.where(i); }
  mutable std::set<Index> expected;

 private:
  Counting data_{50};
  mutable int read_ = 0;
};

TEST(Loader, SaysWhichSamplesItReadsSoon) {
  const auto data = std::make_shared<Expecting>();
  Loader loader(data, sampler("shuffle", 50), {.batch = 50, .threads = 0, .epochs = 1});
  ASSERT_TRUE(loader.next());
  EXPECT_EQ(data->expected.size(), 48u);
}

TEST(Loader, GivesEverySampleInItsRow) {
  Loader loader(std::make_shared<Counting>(10), sampler("ordered", 10), {.batch = 4, .threads = 2, .epochs = 1});
  EXPECT_EQ(loader.batches(), 3);
  std::vector<Index> order;
  while (const Batch* batch = loader.next()) {
    EXPECT_EQ(batch->fields[0].shape(), (Shape{batch->size(), 3}));
    EXPECT_EQ(batch->fields[1].shape(), (Shape{batch->size()}));
    const Seen seen = look(*batch);
    for (size_t r = 0; r < seen.samples.size(); ++r) {
      const auto i = static_cast<float>(seen.samples[r]);
      EXPECT_THAT(std::vector(seen.values.begin() + 3 * r, seen.values.begin() + 3 * (r + 1)),
                  ElementsAre(i, 2 * i, -i));
      EXPECT_EQ(seen.labels[r], seen.samples[r] % 10);
      order.push_back(seen.samples[r]);
    }
  }
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(loader.counts().samples, 10);
  EXPECT_EQ(loader.counts().bytes, 10 * (12 + 8));
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(Loader, SameBatchesForAnyNumberOfThreads) {
  const auto run = [&](int threads, Index ahead, bool drop_last) {
    Loader loader(std::make_shared<Counting>(1003, std::set<Index>{3, 500, 501, 1002}), sampler("shuffle", 1003),
                  {.batch = 32,
                   .drop_last = drop_last,
                   .threads = threads,
                   .ahead = ahead,
                   .epochs = 3,
                   .on_error = OnError::skip});
    std::vector<Seen> seen = all_of(loader);
    EXPECT_EQ(loader.counts().skipped, drop_last ? loader.counts().skipped : 12);
    return seen;
  };
  for (const bool drop_last : {false, true}) {
    const std::vector<Seen> one = run(0, 1, drop_last);
    EXPECT_EQ(one.size(), drop_last ? 93u : 96u);
    for (const int threads : {1, 2, 5})
      for (const Index ahead : {1, 2, 7}) EXPECT_EQ(run(threads, ahead, drop_last), one) << threads << " threads";
  }
}

TEST(Loader, BeginsAtAnyBatch) {
  const auto data = std::make_shared<Counting>(50);
  const auto order = sampler("shuffle", 50);
  Loader whole(data, order, {.batch = 8, .threads = 2, .epochs = 3});
  const std::vector<Seen> expected = all_of(whole);
  for (size_t given = 0; given <= expected.size(); ++given) {
    Loader first(data, order, {.batch = 8, .threads = 1, .epochs = 3});
    for (size_t b = 0; b < given; ++b) first.next();
    const Loader::State state = first.state();
    Loader second(data, order,
                  {.batch = 8, .threads = 2, .epochs = 3, .first_epoch = state.epoch, .first_batch = state.batch});
    EXPECT_EQ(all_of(second), std::vector<Seen>(expected.begin() + static_cast<long>(given), expected.end()));
  }
}

TEST(Loader, AFailureComesAtItsBatchAndStays) {
  for (const int threads : {0, 1, 4}) {
    Loader loader(std::make_shared<Counting>(100, std::set<Index>{47, 45, 80}), sampler("ordered", 100),
                  {.batch = 10, .threads = threads, .ahead = 3, .epochs = 1});
    for (Index b = 0; b < 4; ++b) EXPECT_EQ(loader.next()->number, b);
    for (int again = 0; again < 2; ++again) {
      try {
        loader.next();
        FAIL() << "no error";
      } catch (const SampleError& error) {
        EXPECT_THAT(error.what(), HasSubstr("[loader] sample 45 (counted 45): [counting] broken"));
      }
    }
  }
}

TEST(Loader, OnlySamplesAreSkipped) {
  Loader loader(std::make_shared<Counting>(20, std::set<Index>{}, 7), sampler("ordered", 20),
                {.batch = 5, .threads = 2, .on_error = OnError::skip});
  EXPECT_EQ(loader.next()->number, 0);
  try {
    loader.next();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("sample 7 (counted 7): the disk is gone"));
  }
}

TEST(Loader, OthersTakeThePlacesOfSamplesThatCannotBeRead) {
  for (const int threads : {0, 1, 3}) {
    Loader loader(std::make_shared<Counting>(20, std::set<Index>{3, 13, 19}), sampler("ordered", 20),
                  {.batch = 5, .threads = threads, .epochs = 1, .on_error = OnError::replace});
    std::vector<Index> order;
    while (const Batch* batch = loader.next()) {
      EXPECT_EQ(batch->size(), 5);
      const Seen seen = look(*batch);
      for (size_t r = 0; r < seen.samples.size(); ++r)
        EXPECT_EQ(seen.values[3 * r], static_cast<float>(seen.samples[r]));
      order.insert(order.end(), seen.samples.begin(), seen.samples.end());
    }
    // Half an epoch after 3 is 13, which is broken as well.
    EXPECT_THAT(order, ElementsAre(0, 1, 2, 14, 4, 5, 6, 7, 8, 9, 10, 11, 12, 4, 14, 15, 16, 17, 18, 9));
    EXPECT_EQ(loader.counts().skipped, 3);
    ASSERT_EQ(loader.counts().first_skipped.size(), 3u);
    EXPECT_EQ(loader.counts().first_skipped[0].sample, 3);
    EXPECT_THAT(loader.counts().first_skipped[0].reason, HasSubstr("counted 3"));
    EXPECT_THAT(loader.counts().first_skipped[0].reason, HasSubstr("sample 14 took its place"));
  }
}

TEST(Loader, NobodyMayBeLeftToTakeAPlace) {
  Loader loader(std::make_shared<Counting>(4, std::set<Index>{0, 1, 2, 3}), sampler("ordered", 4),
                {.batch = 2, .threads = 1, .epochs = 1, .on_error = OnError::replace});
  try {
    loader.next();
    FAIL() << "no error";
  } catch (const SampleError& error) {
    EXPECT_THAT(error.what(), HasSubstr("none of 3 others"));
  }
}

TEST(Loader, SkippedSamplesAreLeftOutCountedAndNamed) {
  std::set<Index> broken{0, 3, 9};
  for (Index i = 10; i < 15; ++i) broken.insert(i);  // a whole batch
  Loader loader(std::make_shared<Counting>(20, broken), sampler("ordered", 20),
                {.batch = 5, .threads = 3, .epochs = 1, .on_error = OnError::skip});
  std::vector<Index> order;
  std::vector<Index> sizes;
  while (const Batch* batch = loader.next()) {
    const Seen seen = look(*batch);
    for (size_t r = 0; r < seen.samples.size(); ++r) EXPECT_EQ(seen.values[3 * r], static_cast<float>(seen.samples[r]));
    order.insert(order.end(), seen.samples.begin(), seen.samples.end());
    sizes.push_back(batch->size());
  }
  EXPECT_THAT(order, ElementsAre(1, 2, 4, 5, 6, 7, 8, 15, 16, 17, 18, 19));
  EXPECT_THAT(sizes, ElementsAre(3, 4, 5));
  EXPECT_EQ(loader.counts().skipped, 8);
  ASSERT_EQ(loader.counts().first_skipped.size(), 8u);
  EXPECT_EQ(loader.counts().first_skipped[1].sample, 3);
  EXPECT_THAT(loader.counts().first_skipped[1].reason, HasSubstr("counted 3"));
}

TEST(Loader, StopsEarlyWithoutHanging) {
  for (int used = 0; used < 3; ++used) {
    Loader loader(std::make_shared<Counting>(100000), sampler("shuffle", 100000), {.batch = 64, .threads = 4});
    for (int b = 0; b < used; ++b) loader.next();
  }
}

// The ring bounds what is read ahead of the caller.
TEST(Loader, ReadsNoFurtherAheadThanAsked) {
  const auto data = std::make_shared<Counting>(10000);
  Loader loader(data, sampler("ordered", 10000), {.batch = 10, .threads = 3, .ahead = 4});
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(data->reads, 5 * 10);  // the one in use and four ahead
}

// What is measured beside a loader must not share its cores with it.
TEST(Loader, ReadsNothingOnceItHasSettled) {
  for (const int threads : {0, 1, 3}) {
    const auto data = std::make_shared<Counting>(1000);
    Loader loader(data, sampler("ordered", 1000), {.batch = 4, .threads = threads, .ahead = 3, .epochs = 1});
    loader.next();
    loader.settle();
    const Index reads = data->reads;
    EXPECT_EQ(reads, threads == 0 ? 4 : 16) << threads;  // the batch in use and three ahead
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(data->reads, reads);
    while (loader.next()) continue;
    loader.settle();  // at the end there is nothing to wait for
  }
}

class Slow final : public Dataset {
 public:
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return 1000; }
  void read(Index, Sample& into) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    into[0].values<float>()[0] = 0;
  }
  std::string where(Index) const override { return "slow"; }

 private:
  std::vector<Field> fields_{{"x", DType::f32, Shape{}, {}}};
};

TEST(Loader, StallIsTheTimeOfTheCaller) {
  Loader starving(std::make_shared<Slow>(), sampler("ordered", 1000), {.batch = 2, .threads = 1});
  for (int b = 0; b < 10; ++b) EXPECT_GE(starving.next()->read_s, 0.010);
  const LoaderCounts& counts = starving.counts();
  EXPECT_GE(counts.waited_s, 0.95 * counts.elapsed_s);
  EXPECT_GE(counts.elapsed_s, 0.100);

  Loader fed(std::make_shared<Counting>(1000), sampler("ordered", 1000), {.batch = 2, .threads = 1});
  for (int b = 0; b < 10; ++b) {
    fed.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LE(fed.counts().waited_s, 0.5 * fed.counts().elapsed_s);
}

class PutsItsOwn final : public Dataset {
 public:
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return 4; }
  void read(Index, Sample& into) const override { into[0] = Tensor::scalar(1, DType::f32); }
  std::string where(Index) const override { return "own"; }

 private:
  std::vector<Field> fields_{{"x", DType::f32, Shape{}, {}}};
};

TEST(Loader, RefusesWhatItCannotDo) {
  const auto data = std::make_shared<Counting>(10);
  const auto order = sampler("ordered", 10);
  EXPECT_THROW(Loader(data, order, {.batch = 0}), UsageError);
  EXPECT_THROW(Loader(data, order, {.threads = -1}), UsageError);
  EXPECT_THROW(Loader(data, order, {.ahead = 0}), UsageError);
  EXPECT_THROW(Loader(data, order, {.batch = 20, .drop_last = true}), UsageError);
  EXPECT_THROW(Loader(data, order, {.batch = 5, .first_batch = 3}), UsageError);
  EXPECT_THROW(Loader(std::make_shared<Counting>(0), sampler("ordered", 0), {}), UsageError);
  EXPECT_THROW(parse_on_error("ignore"), UsageError);
  Loader wrong(std::make_shared<PutsItsOwn>(), sampler("ordered", 4), {.batch = 2});
  EXPECT_THROW(wrong.next(), Error);
}

TEST(Loader, UsesTheMemoryItIsGiven) {
  struct Counted final : Memory {
    std::string device() const override { return "host"; }
    void* allocate(size_t bytes) override {
      total += bytes;
      return host_memory().allocate(bytes);
    }
    void release(void* pointer, size_t bytes) noexcept override { host_memory().release(pointer, bytes); }
    void upload(void* to, const void* from, size_t bytes) override { host_memory().upload(to, from, bytes); }
    void download(void* to, const void* from, size_t bytes) override { host_memory().download(to, from, bytes); }
    size_t total = 0;
  } memory;
  Loader loader(std::make_shared<Counting>(100), sampler("ordered", 100),
                {.batch = 10, .threads = 1, .ahead = 2, .memory = &memory});
  EXPECT_EQ(memory.total, 3u * 10 * (12 + 8));
  for (int b = 0; b < 25; ++b) EXPECT_EQ(&loader.next()->fields[0].memory(), &memory);
  EXPECT_EQ(memory.total, 3u * 10 * (12 + 8));
}

TEST(TensorDataset, GivesViewsAndWritesRows) {
  const TensorDataset data("numbers", {{"x", DType::f32, {}, {}}, {"y", DType::i64, {}, 3}},
                           {Tensor::from<float>({2, 2}, {1, 2, 3, 4}), Tensor::from<int64_t>({2}, {0, 2})});
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(data.fields()[0].shape, Shape{2});
  EXPECT_THAT(data.at(1)[0].values<float>(), ElementsAre(3, 4));
  EXPECT_EQ(data.at(1)[1].values<int64_t>()[0], 2);
  EXPECT_THROW(data.at(2), Error);
  EXPECT_THROW(TensorDataset("n", {{"x", DType::f32, {}, {}}, {"y", DType::f32, {}, {}}},
                             {Tensor(DType::f32, {2, 2}), Tensor(DType::f32, {3})}),
               Error);
}

}  // namespace
}  // namespace d5
