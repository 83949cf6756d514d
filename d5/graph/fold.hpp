// SPDX-License-Identifier: Apache-2.0
// Constant folding: what can be computed before the run is, by the operators' own loops. An If whose condition is known
// is replaced by the branch that is taken.
#pragma once

#include "d5/graph/graph.hpp"

namespace d5 {

struct FoldOptions {
  // Sizes of inputs are what they are bound to, so that what networks compute from shapes is known. False: only where
  // no input has a free size.
  bool bound_sizes = true;
  size_t most_bytes = size_t{16} << 20;  // of a result that is larger than what it is made from
  double most_flops = 1e9;               // of one node: the operators' own loops are slow
};

// Returns how many nodes went. What cannot be computed stays; nothing is an error here.
size_t fold_constants(Graph&, const FoldOptions& = {});

}  // namespace d5
