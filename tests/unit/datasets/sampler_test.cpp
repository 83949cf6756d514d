// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/sampler.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "counting.hpp"
#include "d5/core/error.hpp"
#include "d5/datasets/classes.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Index> epoch_of(const Sampler& sampler, Index epoch = 0) {
  std::vector<Index> all(static_cast<size_t>(sampler.size()));
  sampler.take(epoch, 0, 1, all);
  return all;
}
std::vector<Index> counted_to(Index n) {
  std::vector<Index> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}
std::vector<Index> sorted(std::vector<Index> values) {
  std::ranges::sort(values);
  return values;
}
Attributes bucket_values(Index n, int64_t batch, int64_t buckets) {
  std::vector<int64_t> lengths;
  for (Index i = 0; i < n; ++i) lengths.push_back((i * 7919) % 101);
  return {{"lengths", lengths}, {"batch", batch}, {"buckets", buckets}};
}

TEST(Sampler, UnknownNamesAndValuesAreRefused) {
  EXPECT_THROW(make_sampler("shufle", 10, 0), UsageError);
  EXPECT_THROW(make_sampler("choice", 10, 0, {{"draw", int64_t{3}}}), UsageError);
  EXPECT_THROW(make_sampler("choice", 10, 0, {{"draws", int64_t{-3}}}), UsageError);
  EXPECT_THROW(make_sampler("weighted", 2, 0, {{"weights", std::vector<double>{1}}}), UsageError);
  EXPECT_THROW(make_sampler("weighted", 2, 0, {{"weights", std::vector<double>{1, -1}}}), UsageError);
  EXPECT_THROW(make_sampler("weighted", 2, 0, {{"weights", std::vector<double>{0, 0}}}), UsageError);
  EXPECT_THROW(make_sampler("weighted", 2, 0, {{"weights", std::vector<double>{1, NAN}}}), UsageError);
  EXPECT_THROW(make_sampler("bucket", 2, 0), UsageError);
  EXPECT_THROW(make_sampler("ordered", -1, 0), UsageError);
}

TEST(Sampler, EverySampleOnceWhateverTheSize) {
  for (const Index n : {0, 1, 2, 3, 7, 64, 100, 1000}) {
    EXPECT_EQ(epoch_of(*make_sampler("ordered", n, 1)), counted_to(n));
    for (Index epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(sorted(epoch_of(*make_sampler("shuffle", n, 1), epoch)), counted_to(n));
      for (const int64_t batch : {1, 3, 8, 1000})
        for (const int64_t buckets : {1, 4, 50})
          EXPECT_EQ(sorted(epoch_of(*make_sampler("bucket", n, 1, bucket_values(n, batch, buckets)), epoch)),
                    counted_to(n))
              << n << " samples, batch " << batch << ", buckets " << buckets;
    }
  }
}

TEST(Sampler, OrderChangesWithSeedAndEpochAndNothingElse) {
  const auto values = bucket_values(1000, 10, 5);
  for (const std::string name : {"shuffle", "choice", "bucket"}) {
    const Attributes given = name == "bucket" ? values : Attributes();
    const auto sampler = make_sampler(name, 1000, 5, given);
    EXPECT_EQ(epoch_of(*sampler, 2), epoch_of(*make_sampler(name, 1000, 5, given), 2)) << name;
    EXPECT_NE(epoch_of(*sampler, 2), epoch_of(*sampler, 3)) << name;
    EXPECT_NE(epoch_of(*sampler, 2), epoch_of(*make_sampler(name, 1000, 6, given), 2)) << name;
    const std::vector<Index> whole = epoch_of(*sampler, 2);
    std::vector<Index> part(100);
    sampler->take(2, 17, 3, part);
    for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[17 + 3 * i]) << name;
  }
}

TEST(Sampler, RanksShareAnEpochWithoutDuplicatesOrOmissions) {
  for (const Index n : {0, 1, 2, 5, 16, 17, 97, 1000})
    for (const int ranks : {1, 2, 3, 7, 16, 40})
      for (const std::string name : {"ordered", "shuffle", "bucket"}) {
        const std::shared_ptr<const Sampler> all =
            make_sampler(name, n, 3, name == "bucket" ? bucket_values(n, 4, 3) : Attributes());
        std::vector<Index> together;
        for (int rank = 0; rank < ranks; ++rank) {
          const auto own = partitioned(all, rank, ranks);
          EXPECT_TRUE(own->size() == n / ranks || own->size() == n / ranks + 1) << n << " on " << ranks;
          const std::vector<Index> samples = epoch_of(*own, 1);
          together.insert(together.end(), samples.begin(), samples.end());
        }
        EXPECT_EQ(sorted(together), counted_to(n)) << name << ": " << n << " samples on " << ranks << " ranks";
      }
  const std::shared_ptr<const Sampler> all = make_sampler("ordered", 10, 0);
  EXPECT_THROW(partitioned(all, 2, 2), UsageError);
  EXPECT_THROW(partitioned(all, -1, 2), UsageError);
}

// Two ranks with batches of 6 and three ranks with batches of 4 do the same steps.
TEST(Sampler, AStepOfAllRanksDoesNotDependOnTheirNumber) {
  const std::shared_ptr<const Sampler> all = make_sampler("shuffle", 120, 9);
  const auto step = [&](int ranks, Index number) {
    std::vector<Index> together;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<Index> batch(static_cast<size_t>(12 / ranks));
      partitioned(all, rank, ranks)->take(0, number * 12 / ranks, 1, batch);
      together.insert(together.end(), batch.begin(), batch.end());
    }
    return sorted(together);
  };
  for (Index number = 0; number < 10; ++number) EXPECT_EQ(step(2, number), step(3, number));
}

TEST(Sampler, DrawsFollowTheirWeights) {
  const std::vector<double> weights{0, 1, 2, 0, 5, 0.5, 1.5};
  const Index draws = 100000;
  const auto sampler = make_sampler("weighted", 7, 4, {{"weights", weights}, {"draws", draws}});
  EXPECT_EQ(sampler->size(), draws);
  std::vector<double> counts(7);
  for (const Index i : epoch_of(*sampler)) ++counts[static_cast<size_t>(i)];
  for (size_t i = 0; i < weights.size(); ++i) {
    const double p = weights[i] / 10, mean = p * double(draws);
    EXPECT_LE(std::abs(counts[i] - mean), 5 * std::sqrt(mean * (1 - p))) << "sample " << i;  // 5 sigma; 0 exactly
  }
}

// Of what can be read classes 1 and 2 have two samples, class 5 has none, the others have one.
TEST(Sampler, WeightedDrawsClassesEquallyOften) {
  const Counting data(13, {5, 10});
  EXPECT_THAT(balancing_weights(data), ElementsAre(1, 0.5, 0.5, 1, 1, 0, 1, 1, 1, 1, 0, 0.5, 0.5));
  const auto sampler = sampler_of("weighted", data, 3);
  EXPECT_EQ(sampler->size(), 13);
  std::map<Index, double> classes;
  for (Index epoch = 0; epoch < 1000; ++epoch)
    for (const Index i : epoch_of(*sampler, epoch)) ++classes[i % 10];
  EXPECT_EQ(classes.size(), 9u);
  for (const auto& [name, count] : classes)
    EXPECT_LE(std::abs(count - 13000.0 / 9), 5 * std::sqrt(13000.0 / 9)) << "class " << name;
}

TEST(Sampler, ChoiceIsUniform) {
  const Index draws = 100000;
  std::vector<double> counts(10);
  for (const Index i : epoch_of(*make_sampler("choice", 10, 4, {{"draws", draws}}))) ++counts[static_cast<size_t>(i)];
  for (const double count : counts) EXPECT_LE(std::abs(count - 1e4), 5 * std::sqrt(9e3));
}

TEST(Sampler, BucketsKeepLengthsTogether) {
  const Index n = 1000, batch = 10;
  const Attributes values = bucket_values(n, batch, 10);
  const std::vector<int64_t> lengths = values.integers("lengths");
  const std::vector<Index> order = epoch_of(*make_sampler("bucket", n, 2, values));
  std::map<int64_t, int> first_of_batch;
  for (Index b = 0; b < n / batch; ++b) {
    int64_t low = 1000, high = -1;
    for (Index r = 0; r < batch; ++r) {
      const int64_t length = lengths[static_cast<size_t>(order[static_cast<size_t>(b * batch + r)])];
      low = std::min(low, length);
      high = std::max(high, length);
    }
    EXPECT_LE(high - low, 11) << "batch " << b;  // a tenth of lengths 0 .. 100
    ++first_of_batch[low / 10];
  }
  EXPECT_GE(first_of_batch.size(), 9u);
  // Batches of short and of long samples are mixed: the order of their lengths is not sorted.
  std::vector<int64_t> heads;
  for (Index b = 0; b < n / batch; ++b)
    heads.push_back(lengths[static_cast<size_t>(order[static_cast<size_t>(b * batch)])]);
  EXPECT_FALSE(std::ranges::is_sorted(heads));
}

}  // namespace
}  // namespace d5
