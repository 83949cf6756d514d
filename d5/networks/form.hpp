// SPDX-License-Identifier: Apache-2.0
// BatchNormalization and Dropout compute one thing while a network learns and another when it is used. In ONNX the node
// says which, so a graph has one of two forms and means the same whatever the mode it is compiled for:
//   training    BatchNormalization has training_mode = 1 and two more outputs, the new running statistics, which are
//               outputs of the graph; Dropout drops
//   inference   BatchNormalization reads the running statistics; there is no Dropout
// What is learned in the first form is used in the second: the parameters have the same names. Networks that were read
// from files can be turned, too, but a Dropout that is gone does not come back.
#pragma once

#include <map>
#include <string>

#include "d5/graph/graph.hpp"

namespace d5 {

Graph training_form(Graph);
Graph inference_form(Graph);

// Parameter -> the output of the graph that replaces it after a step: the running statistics of the training form.
std::map<std::string, std::string> running_updates(const Graph&);

}  // namespace d5
