// SPDX-License-Identifier: Apache-2.0
// Divisions of batches against all possible ones, tried one by one.
#include "d5/graph/micro_batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "d5/core/rng.hpp"
#include "d5/graph/integer_program.hpp"

namespace d5 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<MeasuredSize> random_sizes(Index batch, uint64_t seed) {
  const Rng rng(seed, 1);
  std::vector<MeasuredSize> sizes;
  for (const Index n : micro_batch_sizes(batch)) {
    const auto at = static_cast<uint64_t>(n);
    sizes.push_back({n, static_cast<double>(n) * (1 + rng.uniform(2 * at)),
                     static_cast<double>(n) * (1 + rng.uniform(2 * at + 1))});
  }
  return sizes;
}

// The least time over every division, by trying all.
double least_time(Index left, std::span<const MeasuredSize> sizes, double limit) {
  if (left == 0) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (const MeasuredSize& size : sizes)
    if (size.samples <= left && size.workspace_bytes <= limit)
      least = std::min(least, size.seconds + least_time(left - size.samples, sizes, limit));
  return least;
}

TEST(MicroBatch, SizesAreHalvesAndPowersOfTwo) {
  EXPECT_THAT(micro_batch_sizes(1), ElementsAre(1));
  EXPECT_THAT(micro_batch_sizes(12), ElementsAre(1, 2, 3, 4, 6, 8, 12));
}

TEST(MicroBatch, OneOperatorIsDividedInTheLeastTime) {
  for (uint64_t seed = 0; seed < 50; ++seed)
    for (const Index batch : {1, 5, 12, 16}) {
      const auto sizes = random_sizes(batch, seed);
      for (const double limit : {1.5, 4.0, 9.0, 40.0}) {
        const double least = least_time(batch, sizes, limit);
        const auto division = fastest_division(batch, sizes, limit);
        ASSERT_EQ(division.has_value(), std::isfinite(least));
        if (!division) continue;
        EXPECT_DOUBLE_EQ(division->seconds, least);
        EXPECT_LE(division->workspace_bytes, limit);
        EXPECT_EQ(std::accumulate(division->pieces.begin(), division->pieces.end(), Index{0}), batch);
      }
    }
}

TEST(MicroBatch, LessWorkspaceAlwaysCostsTime) {
  const auto sizes = random_sizes(16, 3);
  const auto divisions = best_divisions(16, sizes);
  ASSERT_GE(divisions.size(), 2u);
  for (size_t i = 1; i < divisions.size(); ++i) {
    EXPECT_LT(divisions[i].workspace_bytes, divisions[i - 1].workspace_bytes);
    EXPECT_GE(divisions[i].seconds, divisions[i - 1].seconds);
  }
}

TEST(MicroBatch, WorkspacesSideBySideAreDividedByTheIntegerProgram) {
  if (!integer_solver()) GTEST_SKIP() << "this build has no solver (coinor-libcbc-dev)";
  const std::vector<Index> batches{8, 8, 6};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<std::vector<MeasuredSize>> sizes;
    for (size_t i = 0; i < batches.size(); ++i) sizes.push_back(random_sizes(batches[i], 10 * seed + i));
    for (const double limit : {2.0, 8.0, 20.0, 1000.0}) {
      double least = std::numeric_limits<double>::infinity();
      const std::function<void(size_t, double, double)> try_all = [&](size_t op, double seconds, double bytes) {
        if (bytes > limit) return;
        if (op == batches.size()) {
          least = std::min(least, seconds);
          return;
        }
        for (const Division& one : best_divisions(batches[op], sizes[op]))
          try_all(op + 1, seconds + one.seconds, bytes + one.workspace_bytes);
      };
      try_all(0, 0, 0);
      const auto chosen = fastest_divisions(batches, sizes, limit, Workspaces::side_by_side);
      ASSERT_EQ(chosen.has_value(), std::isfinite(least)) << limit;
      if (!chosen) continue;
      double seconds = 0, bytes = 0;
      for (const Division& one : *chosen) {
        seconds += one.seconds;
        bytes += one.workspace_bytes;
      }
      EXPECT_NEAR(seconds, least, 1e-9 * least);
      EXPECT_LE(bytes, limit * (1 + 1e-9));
    }
  }
}

TEST(MicroBatch, PiecesMustAddUpAndNodesExist) {
  Graph graph;
  graph.inputs = {{"x", {DType::f32, {4, 1, 3, 3}}}, {"w", {DType::f32, {1, 1, 3, 3}}, true}};
  graph.nodes = {{"Conv", "conv", {"x", "w"}, {"y"}, {}}};
  graph.outputs = {"y"};
  const Graph divided = with_micro_batches(graph, {{"conv", {3, 1}}});
  EXPECT_EQ(divided.nodes.size(), 4u);
  EXPECT_EQ(infer_specs(divided).at("y").shape, infer_specs(graph).at("y").shape);
  const auto message = [&](const std::map<std::string, std::vector<Index>>& pieces) {
    try {
      with_micro_batches(graph, pieces);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message({{"conv", {3, 2}}}), HasSubstr("conv: the pieces add up to 5, the batch is 4"));
  EXPECT_THAT(message({{"other", {4}}}), HasSubstr("no node 'other'"));
}

}  // namespace
}  // namespace d5
