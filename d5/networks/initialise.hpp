// SPDX-License-Identifier: Apache-2.0
// The values that parameters start with. They depend on the parameter's NAME, its shape and the seed alone: not on the
// order of parameters, on threads or on the backend, so that every backend starts from the same network.
//
// GraphInput::initialiser says how:
//   zeros      ones      constant:V
//   normal:D       normal, deviation D                    uniform:A       uniform in [-A, A]
//   he             normal, sqrt(2 / fan_in) (He et al., 2015)       he-out: with fan_out
//   xavier         uniform, sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010)
//   lecun          normal, sqrt(1 / fan_in) (LeCun et al., 1998)
// fan_in counts the inputs of one output, fan_out the outputs of one input; the operator that reads the parameter tells
// which axes those are.
#pragma once

#include <map>
#include <string>

#include "d5/graph/graph.hpp"

namespace d5 {

// Of every parameter: its tensor in Graph::initial where there is one, else what its initialiser says. Error for a
// parameter that has neither.
std::map<std::string, Tensor> initial_values(const Graph&, uint64_t seed);

struct Fans {
  double in = 0, out = 0;
};
Fans fans(const Graph&, const GraphInput& parameter);  // Error where no operator tells

}  // namespace d5
