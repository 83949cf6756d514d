// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/views.hpp"

#include <gmock/gmock.h>

#include <numeric>
#include <thread>

#include "counting.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

std::vector<Index> numbers(const Dataset& data) {
  std::vector<Index> all;
  for (Index i = 0; i < data.size(); ++i) all.push_back(number_of(data.at(i)));
  return all;
}
std::vector<Index> numbers(Stream& stream) {
  std::vector<Index> all;
  for (Sample sample(2); stream.next(sample); sample.assign(2, {})) all.push_back(number_of(sample));
  return all;
}
std::vector<Index> counted_to(Index n) {
  std::vector<Index> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}
StreamPointer stream_to(Index n, std::set<Index> broken = {}) {
  return streamed(std::make_shared<Counting>(n, std::move(broken)), make_sampler("ordered", n, 0));
}

TEST(Views, RenumberSamples) {
  const auto data = std::make_shared<Counting>(10);
  EXPECT_THAT(numbers(*subset(data, {7, 7, 0})), ElementsAre(7, 7, 0));
  EXPECT_EQ(subset(data, {7, 7, 0})->where(1), "counted 7");
  EXPECT_THAT(numbers(*range(data, 8, 2)), ElementsAre(8, 9));
  EXPECT_THAT(numbers(*shard(data, 1, 4)), ElementsAre(1, 5, 9));
  EXPECT_THAT(numbers(*shard(data, 3, 4)), ElementsAre(3, 7));
  EXPECT_THAT(numbers(*shuffled(data, 5)), UnorderedElementsAreArray(counted_to(10)));
  EXPECT_NE(numbers(*shuffled(data, 5)), numbers(*shuffled(data, 5, 1)));
  EXPECT_THROW(subset(data, {10}), UsageError);
  EXPECT_THROW(range(data, 5, 6), UsageError);
  EXPECT_THROW(shard(data, 4, 4), UsageError);
  EXPECT_THROW(subset(data, {1})->at(1), Error);
}

TEST(Views, MapMakesOtherFields) {
  const auto halved = mapped(std::make_shared<Counting>(4), {{"half", DType::f32, Shape{}, {}}},
                             [](Index, const Sample& in, Sample& out) {
                               if (!out[0].present()) out[0] = Tensor(DType::f32, {});
                               out[0].values<float>()[0] = in[0].values<float>()[0] / 2;
                             });
  EXPECT_EQ(halved->at(3)[0].values<float>()[0], 1.5f);
  EXPECT_EQ(halved->where(3), "counted 3");
}

TEST(Views, BatchesAreStacked) {
  const auto data = std::make_shared<Counting>(7);
  const auto three = batched(data, 3);
  EXPECT_EQ(three->size(), 3);
  EXPECT_FALSE(three->fields()[0].shape);
  EXPECT_EQ(three->at(2)[0].shape(), (Shape{1, 3}));
  EXPECT_THAT(three->at(1)[1].values<int64_t>(), ElementsAre(3, 4, 5));
  const auto whole = batched(data, 3, true);
  EXPECT_EQ(whole->size(), 2);
  EXPECT_EQ(whole->fields()[0].shape, (Shape{3, 3}));
  EXPECT_THROW(whole->at(2), Error);
  EXPECT_THROW(batched(data, 0), UsageError);
}

TEST(Views, CacheReadsOnceWithinItsLimit) {
  const auto data = std::make_shared<Counting>(10);
  const auto kept = cached(data, 4 * 20);  // four samples of 20 bytes
  EXPECT_EQ(numbers(*kept), counted_to(10));
  EXPECT_EQ(numbers(*kept), counted_to(10));
  EXPECT_EQ(data->reads, 10 + 6);
  EXPECT_EQ(kept->counts().hits, 4);
  EXPECT_EQ(kept->counts().misses, 16);
  EXPECT_EQ(kept->counts().bytes, 80u);
  Sample row{Tensor(DType::f32, {3}), Tensor()};
  kept->read(2, row);
  EXPECT_THAT(row[0].values<float>(), ElementsAre(2, 4, -2));
}

TEST(Views, CacheServesManyThreads) {
  const auto data = std::make_shared<Counting>(200);
  const auto kept = cached(data, 1 << 20);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { wrong += numbers(*kept) != counted_to(200); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(kept->counts().bytes, 200u * 20);
}

TEST(Streams, ShuffleBufferLosesNothing) {
  for (const Index n : {0, 1, 5, 100})
    for (const Index buffer : {1, 4, 100, 1000})
      EXPECT_THAT(numbers(*shuffled(stream_to(n), buffer, 3)), UnorderedElementsAreArray(counted_to(n)));
  EXPECT_EQ(numbers(*shuffled(stream_to(50), 1, 3)), counted_to(50));
  const std::vector<Index> order = numbers(*shuffled(stream_to(500), 20, 3));
  EXPECT_NE(order, counted_to(500));
  for (size_t p = 0; p < order.size(); ++p) EXPECT_LE(order[p], static_cast<Index>(p) + 19);
  EXPECT_EQ(order, numbers(*shuffled(stream_to(500), 20, 3)));
  EXPECT_NE(order, numbers(*shuffled(stream_to(500), 20, 4)));
  EXPECT_THROW(shuffled(stream_to(5), 0, 3), UsageError);
}

TEST(Streams, ShardsAndBatches) {
  EXPECT_THAT(numbers(*shard(stream_to(10), 1, 4)), ElementsAre(1, 5, 9));
  const StreamPointer pairs = batched(stream_to(5), 2);
  std::vector<Index> sizes;
  for (Sample sample(2); pairs->next(sample); sample.assign(2, {})) sizes.push_back(sample[0].shape()[0]);
  EXPECT_THAT(sizes, ElementsAre(2, 2, 1));
  const StreamPointer whole = batched(stream_to(5), 2, true);
  EXPECT_EQ(whole->fields()[0].shape, (Shape{2, 3}));
  Index count = 0;
  for (Sample sample(2); whole->next(sample); sample.assign(2, {})) ++count;
  EXPECT_EQ(count, 2);
}

TEST(Streams, PrefetchKeepsTheOrderAndEndsEarly) {
  EXPECT_EQ(numbers(*prefetched(stream_to(1000), 7)), counted_to(1000));
  EXPECT_EQ(numbers(*prefetched(stream_to(0), 7)), counted_to(0));
  const StreamPointer unread = prefetched(stream_to(1000), 7);
  const StreamPointer begun = prefetched(stream_to(1000), 7);
  Sample sample(2);
  EXPECT_TRUE(begun->next(sample));
  EXPECT_EQ(begun->where(), "counted 0");
}

TEST(Streams, PrefetchGivesAnErrorAtItsPlace) {
  const StreamPointer stream = prefetched(stream_to(5, {2}), 3);
  Sample sample(2);
  EXPECT_TRUE(stream->next(sample));
  EXPECT_TRUE(stream->next(sample));
  EXPECT_THROW(stream->next(sample), SampleError);
  EXPECT_EQ(stream->where(), "counted 2");
  EXPECT_TRUE(stream->next(sample));
  EXPECT_EQ(number_of(sample), 3);
}

}  // namespace
}  // namespace d5
