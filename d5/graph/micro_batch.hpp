// SPDX-License-Identifier: Apache-2.0
// Micro-batching: the batch of an operator is divided into pieces, so that a kernel whose workspace grows with the
// batch fits into a limit, in the least time. Which pieces is decided from measured times (after Oyama, Ben-Nun,
// Hoefler and Matsuoka, "Accelerating Deep Learning Frameworks with Micro-Batches", CLUSTER 2018):
//   one operator     T(0) = 0,  T(n) = min over sizes s with workspace(s) <= limit of time(s) + T(n - s)
//   a network        every operator gets one of its best divisions, by the integer program
//                    min sum t x  with  sum of x over the divisions of an operator = 1,  sum of w x <= limit
//                    where workspaces lie side by side; where they share one place, each has the limit for itself.
#pragma once

#include <map>
#include <optional>
#include <span>

#include "d5/graph/graph.hpp"

namespace d5 {

struct MeasuredSize {
  Index samples;
  double seconds, workspace_bytes;
};

struct Division {
  std::vector<Index> pieces;  // their sum is the batch; the largest first
  double seconds = 0, workspace_bytes = 0;
};

// Sizes worth measuring for a batch: the batch, its halves as long as they are whole, and all powers of two below.
std::vector<Index> micro_batch_sizes(Index batch);

// The fastest division within the limit; empty: even the smallest size does not fit.
std::optional<Division> fastest_division(Index batch, std::span<const MeasuredSize>, double limit_bytes);
// All that are worth choosing: less workspace always costs time. The most workspace first.
std::vector<Division> best_divisions(Index batch, std::span<const MeasuredSize>);

enum class Workspaces { shared, side_by_side };
// One division per operator, or empty where nothing fits. `batches` and `sizes` by operator.
std::optional<std::vector<Division>> fastest_divisions(std::span<const Index> batches,
                                                       std::span<const std::vector<MeasuredSize>> sizes,
                                                       double limit_bytes, Workspaces);

// Nodes by name become Split, one node per piece, Concat: along axis 0 of the first input and of the output. Everything
// else is read by each piece whole. Error where a node is missing or the pieces do not add up to its batch.
Graph with_micro_batches(Graph, const std::map<std::string, std::vector<Index>>& pieces);

}  // namespace d5
