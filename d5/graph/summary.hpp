// SPDX-License-Identifier: Apache-2.0
// A network in numbers: what each layer makes, its parameters, operations and bytes, and the memory of the whole.
#pragma once

#include <string>
#include <vector>

#include "d5/graph/graph.hpp"

namespace d5 {

struct LayerSummary {
  std::string name, op;
  std::vector<std::string> outputs;  // "f32[1x64x56x56]"; "?" where the shape depends on values
  double parameters = 0;             // elements of weights that this layer is the first to read
  double flops = 0;                  // of a forward pass
  double bytes = 0;                  // it must at least move
};

struct NetworkSummary {
  std::vector<LayerSummary> layers;
  double parameters = 0, parameter_bytes = 0;  // floats: what could be trained, running statistics included
  double constant_bytes = 0;                   // all others: shapes, indices, quantised weights
  double flops = 0, bytes = 0;
  double activation_bytes = 0;  // of all values that nodes make
  double peak_bytes = 0;        // the most that are alive at once in the order of the nodes, inputs included
  std::string unknown;          // why shapes from some node on are not known; empty: all are
};

NetworkSummary summarise(const Graph&);

}  // namespace d5
