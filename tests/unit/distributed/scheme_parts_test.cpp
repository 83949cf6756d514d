// SPDX-License-Identifier: Apache-2.0
// What schemes are made of: mixing matrices, random rounding, the choice of the largest, buckets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "d5/distributed/bucket_tuning.hpp"
#include "d5/distributed/buckets.hpp"
#include "d5/distributed/mixing.hpp"
#include "d5/distributed/quantise.hpp"
#include "d5/distributed/rank_scheme.hpp"
#include "d5/distributed/top_k.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::vector<double>> matrix(const std::string& topology, int n, Index step) {
  std::vector<std::vector<double>> w(static_cast<size_t>(n), std::vector<double>(static_cast<size_t>(n)));
  for (int r = 0; r < n; ++r)
    for (const MixingWeight& entry : mixing_row(topology, n, r, step))
      w[static_cast<size_t>(r)][static_cast<size_t>(entry.rank)] += entry.weight;
  return w;
}

TEST(Mixing, MatricesAreDoublyStochastic) {
  for (const std::string& topology : topologies())
    for (const int n : {1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 30}) {
      if (topology == "torus" && (n < 4 || n == 5)) continue;
      for (Index step = 0; step < mixing_phases(topology, n); ++step) {
        const auto w = matrix(topology, n, step);
        for (size_t i = 0; i < w.size(); ++i) {
          double row = 0, column = 0;
          for (size_t j = 0; j < w.size(); ++j) {
            EXPECT_GE(w[i][j], 0);
            row += w[i][j];
            column += w[j][i];
          }
          EXPECT_NEAR(row, 1, n * 0x1p-53) << topology << " " << n;
          EXPECT_NEAR(column, 1, n * 0x1p-53) << topology << " " << n;
          EXPECT_GT(w[i][i], 0);
        }
      }
    }
}

TEST(Mixing, RepeatedMixingReachesTheMean) {
  for (const std::string& topology : topologies()) {
    const int n = 12;
    std::vector<double> x(n);
    std::iota(x.begin(), x.end(), 0.0);
    for (Index step = 0; step < 400; ++step) {
      const auto w = matrix(topology, n, step);
      std::vector<double> mixed(n);
      for (size_t i = 0; i < mixed.size(); ++i) mixed[i] = std::inner_product(x.begin(), x.end(), w[i].begin(), 0.0);
      x = mixed;
    }
    for (const double value : x) EXPECT_NEAR(value, 5.5, 1e-6) << topology;
  }
}

// Of a power of two, one neighbour a step gives everyone the mean after log2 n steps, exactly.
TEST(Mixing, OnePeerIsTheMeanAfterOneRound) {
  std::vector<double> x{8, 1, 5, 2, 7, 3, 6, 0};
  for (Index step = 0; step < 3; ++step) {
    const auto w = matrix("one-peer", 8, step);
    std::vector<double> mixed(8);
    for (size_t i = 0; i < 8; ++i) mixed[i] = std::inner_product(x.begin(), x.end(), w[i].begin(), 0.0);
    x = mixed;
  }
  EXPECT_THAT(x, testing::Each(4.0));
}

TEST(Mixing, ReceiversAreTheColumn) {
  for (const std::string& topology : topologies())
    for (int r = 0; r < 12; ++r) {
      const auto w = matrix(topology, 12, 1);
      std::vector<int> column;
      for (int other = 0; other < 12; ++other)
        if (other != r && w[static_cast<size_t>(other)][static_cast<size_t>(r)] > 0) column.push_back(other);
      EXPECT_EQ(mixing_receivers(topology, 12, r, 1), column) << topology << " " << r;
    }
}

TEST(Mixing, WhatATopologyCannotHaveIsRefused) {
  try {
    mixing_row("torus", 7, 0, 0);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a torus of 7 ranks"));
    EXPECT_THAT(error.what(), HasSubstr("legal"));
  }
  EXPECT_THROW(mixing_row("rign", 4, 0, 0), UsageError);
}

TEST(Quantiser, IsUnbiasedAndWithinALevel) {
  constexpr int n = 700, draws = 2000;
  std::vector<float> values(n);
  for (int i = 0; i < n; ++i) values[static_cast<size_t>(i)] = static_cast<float>(std::sin(i) * (i < 512 ? 1 : 100));
  for (const int64_t bits : {2, 4, 8}) {
    const Quantiser quantiser(bits, 512);
    std::vector<std::byte> encoded(static_cast<size_t>(quantiser.encoded_bytes(n)));
    EXPECT_EQ(static_cast<int64_t>(encoded.size()), 4 + 512 * bits / 8 + 4 + (188 * bits + 7) / 8);
    std::vector<double> sums(n);
    for (uint64_t draw = 0; draw < draws; ++draw) {
      quantiser.encode(values, Rng(draw, 3), 10, encoded.data());
      std::vector<float> once(n);
      quantiser.add_decoded(encoded.data(), once);
      for (size_t i = 0; i < once.size(); ++i) {
        sums[i] += once[i];
        const double level = (i < 512 ? 1.0 : 100.0) / quantiser.levels();
        ASSERT_LE(std::abs(once[i] - values[i]), level * (1 + 1e-6)) << bits << " " << i;
      }
    }
    // A mean of draws of a width of one level: six deviations of at most level / 2 / sqrt(draws).
    for (size_t i = 0; i < sums.size(); ++i) {
      const double level = (i < 512 ? 1.0 : 100.0) / quantiser.levels();
      EXPECT_NEAR(sums[i] / draws, values[i], 6 * level / 2 / std::sqrt(draws)) << bits << " " << i;
    }
  }
}

// A gradient that is no number must reach the weights, so that the loss shows it.
TEST(Quantiser, WhatIsNoNumberIsNotHidden) {
  for (const int64_t bits : {2, 4, 8})
    for (const float broken : {std::nanf(""), INFINITY})
      for (const size_t at : {0, 5, 7}) {
        std::vector<float> values(16, 0.5f), decoded(16);
        values[at] = broken;
        const Quantiser quantiser(bits, 8);
        std::vector<std::byte> encoded(static_cast<size_t>(quantiser.encoded_bytes(16)));
        quantiser.encode(values, Rng(1, 2), 0, encoded.data());
        quantiser.add_decoded(encoded.data(), decoded);
        EXPECT_FALSE(std::isfinite(decoded[at])) << bits << " " << broken;
        EXPECT_EQ(decoded[8], 0.5f);  // of the next group; the largest is on a level
      }
}

TEST(TopK, WhatIsNoNumberTravels) {
  for (const float broken : {std::nanf(""), -INFINITY}) {
    TopK top(0.25, 8);
    std::vector<float> values{1, -9, 2, broken, -4, 5, 0, 0}, left(8, 0.0f);
    top.split(values, left, 1);
    EXPECT_FALSE(std::isfinite(values[3]));
    EXPECT_EQ(values[1], -9);
    EXPECT_THAT(left, ElementsAre(1, 0, 2, 0, -4, 5, 0, 0));
  }
}

TEST(TopK, KeepsTheLargestAndNothingIsLost) {
  TopK top(0.25, 8);
  std::vector<float> values{1, -9, 2, 3, -4, 5, 0, 0, 7, 7, 7, 0.5f}, left(12, 0.0f);
  left[0] = 100;
  top.split(values, left, 0.5f);
  EXPECT_THAT(values, ElementsAre(51, -9, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0));
  EXPECT_THAT(left, ElementsAre(0, 0, 2, 3, -4, 5, 0, 0, 0, 7, 7, 0.5f));
  TopK all(1, 8);
  std::vector<float> more(12, 1.0f);
  all.split(more, left, 1);
  EXPECT_THAT(left, testing::Each(0.0f));
  EXPECT_EQ(more[4], -3.0f);
}

ParameterSet three_parameters() {
  ParameterSet set;
  set.add({.name = "a", .spec = {DType::f32, {100}}});
  set.add({.name = "running", .spec = {DType::f32, {10}}, .trainable = false});
  set.add({.name = "b", .spec = {DType::f32, {1000}}});
  set.add({.name = "c", .spec = {DType::f32, {50}}});
  set.freeze();
  return set;
}

TEST(Buckets, BeginInOrderWhenTheirLastGradientIsReady) {
  const ParameterSet set = three_parameters();
  Buckets buckets(set, Buckets::of_size(set, 0));
  ASSERT_EQ(buckets.ranges().size(), 4u);  // each parameter
  std::vector<size_t> begun;
  const auto begin = [&](size_t b) { begun.push_back(b); };
  buckets.begin_step();
  buckets.ready({"b", set.range("b")}, begin);
  EXPECT_TRUE(begun.empty());  // a comes first
  buckets.ready({"a", set.range("a")}, begin);
  EXPECT_THAT(begun, ElementsAre(0, 1, 2));  // nobody waits for what is not trained
  buckets.ready({"b", set.range("b")}, begin);
  buckets.finish(begin);
  EXPECT_THAT(begun, ElementsAre(0, 1, 2, 3));
  begun.clear();
  buckets.begin_step();
  buckets.finish(begin);
  EXPECT_THAT(begun, ElementsAre(0, 1, 2, 3));
}

TEST(Buckets, CoverTheArenaWhateverTheirSize) {
  const ParameterSet set = three_parameters();
  for (const double bytes : {0.0, 200.0, 500.0, 4000.0, 1e9}) {
    Index end = 0;
    for (const ParameterSet::Range& range : Buckets::of_size(set, bytes)) {
      EXPECT_EQ(range.first, end);
      end += range.count;
    }
    EXPECT_EQ(end, set.elements());
  }
  for (int parts = 1; parts < 9; ++parts) {
    Index end = 0;
    const auto ranges = whole_parameters(set, parts);
    EXPECT_EQ(ranges.size(), static_cast<size_t>(parts));
    for (const ParameterSet::Range& range : ranges) {
      EXPECT_EQ(range.first, end);
      end += range.count;
    }
    EXPECT_EQ(end, set.elements());
  }
}

TEST(Buckets, TheLastOnesAreShort) {
  const auto lengths = [](int parameters, double bytes) {
    ParameterSet set;
    for (int p = 0; p < parameters; ++p) set.add({.name = fmt::format("p{}", p), .spec = {DType::f32, {64}}});
    set.freeze();
    std::vector<Index> each;
    for (const ParameterSet::Range& range : Buckets::of_size(set, bytes)) each.push_back(range.count / 64);
    return each;
  };
  EXPECT_THAT(lengths(64, 16 * 256), ElementsAre(2, 16, 16, 16, 8, 4, 2));
  EXPECT_THAT(lengths(63, 16 * 256), ElementsAre(17, 16, 16, 8, 4, 2));  // one alone would be latency
  EXPECT_LT(lengths(1000, 0).size(), 200u);
}

TEST(Buckets, AnErrorWithinBackwardComesOutOfFinish) {
  const ParameterSet set = three_parameters();
  Buckets buckets(set, {set.all()});
  buckets.begin_step();
  const auto begin = [](size_t) { throw Error("planted"); };
  for (const char* name : {"a", "b", "c"}) buckets.ready({name, set.range(name)}, begin);
  EXPECT_THROW(buckets.finish(begin), Error);
}

TEST(Overlap, IsTheShareOfWhatCouldBeHidden) {
  EXPECT_DOUBLE_EQ((Overlap::Times{10, 2, 20, 20}.hidden_share()), 0.8);  // backward is long enough for all of it
  EXPECT_DOUBLE_EQ((Overlap::Times{10, 7, 4, 4}.hidden_share()), 0.75);   // 3 of the 4 that backward lasts
  EXPECT_DOUBLE_EQ((Overlap::Times{10, 12, 20, 20}.hidden_share()), 0);   // worse than without
  EXPECT_DOUBLE_EQ((Overlap::Times{10, 10, 0, 0}.hidden_share()), 0);     // nothing could be
  EXPECT_DOUBLE_EQ((Overlap::Times{10, 0, 4, 4}.hidden_share()), 1);      // updates hid some of it, too
}

TEST(Overlap, FewStepsAreTakenWithoutIt) {
  Overlap overlap;
  std::vector<int> alone;
  for (int step = 1; step <= 130; ++step) {
    overlap.begin_step(true);
    if (overlap.is_alone()) alone.push_back(step);
  }
  EXPECT_THAT(alone, ElementsAre(3, 6, 9, 12, 64, 128));
  overlap.restart();
  for (int step = 1; step <= 130; ++step) {
    overlap.begin_step(false);
    EXPECT_FALSE(overlap.is_alone());
  }
}

TEST(BucketTuning, KeepsTheUsualSizeUnlessAnotherIsClearlyFaster) {
  const ParameterSet set = three_parameters();
  for (const double faster : {0.99, 0.9}) {
    BucketTuning tuning(set, 1e9);  // all in one
    double chosen = 0, steps = 0;
    while (!tuning.done()) {
      const double bytes = tuning.bytes(), seconds = bytes == 1e9 ? 1 : steps++ == 0 ? faster : 2;
      if (bytes != 1e9 && seconds == faster) chosen = bytes;
      for (int turn = 1; !tuning.add(turn <= 2 ? 100 : seconds); ++turn) EXPECT_LT(turn, 100);
      EXPECT_EQ(tuning.seconds(), seconds);  // the first steps do not count
      tuning.judge(2 * tuning.seconds());
    }
    EXPECT_GT(steps, 0);
    EXPECT_EQ(tuning.bytes(), faster < 0.98 ? chosen : 1e9);
  }
}

}  // namespace
}  // namespace d5
