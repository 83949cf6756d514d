// SPDX-License-Identifier: Apache-2.0
// A whole network on one backend, checked node by node against the operators' own loops in double.
//   forward    the network runs with every value kept; a node is right where what it made of the inputs it really had,
//              the backend's own, is what the loops make of them, within the tolerance of one operator
//   backward   each node alone, on those same inputs, with random gradients of its outputs
// So an error does not spread: the first node that deviates is the one to look at, and a node behind it is not blamed.
// Keeping every value forbids fusion; compare_values() says how far a network that was compiled freely is from another.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "d5/backends/backend.hpp"
#include "d5/measure/metric.hpp"

namespace d5 {

// Norms of a - b, over all elements.
struct Deviation {
  double l1 = 0, l2 = 0, linf = 0;
  double largest = 0;  // |b|
  Index elements = 0, worst = 0;
};
Deviation deviation(const Tensor& a, const Tensor& b);  // Error where types or shapes differ

struct NodeCheck {
  std::string node, op;
  std::string value;  // an output; backward: the input whose gradient this is
  Pass pass = Pass::forward;
  Deviation error;         // against the loops
  Index compared = 0;      // elements; fewer than all where the loops would take too long
  double worst_share = 0;  // largest |error| / tolerance; above 1 the node deviates
  std::string reason;      // of a node that deviates: the worst element, both values, the tolerance
  std::string skipped;     // why nothing was compared
};

struct Validation {
  std::string unsupported;        // why the backend cannot run the network; then there is nothing else
  std::vector<NodeCheck> checks;  // forward in the order of nodes, then backward in the reverse order
  std::optional<size_t> first;    // the first that deviates
  Tensor first_error;             // |error| of that value, where all of it was compared
};

struct ValidateOptions {
  CompileOptions compile;   // in training mode gradients are checked, too
  uint64_t seed = 1;        // of output gradients
  double full_flops = 5e7;  // a node up to here is compared whole, where that can be chosen
  size_t sample = 1000;     // beyond: this many elements
  // Sees every value that was compared beside what was expected, as it is judged; `done` of `all` nodes and passes.
  std::function<void(const NodeCheck&, const CheckedResult&)> see = {};
  std::function<void(const Node&, size_t done, size_t all)> progress = {};
};

// `values`: every input and parameter of the graph.
Validation validate(const Graph&, const std::map<std::string, Tensor>& values, Backend&, const ValidateOptions&);

// The same network with every value an output, so that every plan keeps it.
Graph with_all_outputs(Graph);

// Every output of the graph, in both, after a forward pass of both.
std::map<std::string, Deviation> compare_values(const Graph&, Executable& a, Executable& b);

// The largest |values| in each cell of a rows x columns grid over the last two axes (over all others the largest, too).
Tensor heat_map(const Tensor& values, Index rows, Index columns);

}  // namespace d5
