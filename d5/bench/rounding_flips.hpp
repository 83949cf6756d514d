// SPDX-License-Identifier: Apache-2.0
// How far two correct runs of a quantised network may be apart. A number that lies between two steps of QuantizeLinear
// falls to one side or the other by the last bit of what came before, and everything behind it follows: elementwise no
// bound holds. So the reference runs a few times with every float result moved at random by up to the rounding error of
// its operator; what the outputs then move, as a Euclidean norm, is what rounding may do to them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "d5/graph/graph.hpp"

namespace d5 {

bool is_quantised(const Graph&);

// By output of the graph: the distance of two runs that differ by rounding alone. 0 where an output is no float.
std::vector<double> flip_distances(const Graph&, const std::map<std::string, GraphValue>& inputs);

// Of two tensors of the same shape, as a Euclidean norm.
double distance_of(const Tensor&, const Tensor&);

}  // namespace d5
