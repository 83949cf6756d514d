// SPDX-License-Identifier: Apache-2.0
// Where gradients flow: a value has one when something wanted lies behind it and an output of the graph before it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "d5/graph/graph.hpp"

namespace d5 {

struct GradientFlow {
  std::map<std::string, bool> values;        // has a gradient
  std::vector<std::vector<bool>> by_input;   // node, input: it contributes to that input's gradient
  bool has(const std::string& value) const;  // false for unknown names
  bool passes(size_t node) const;            // some input of it wants one
};

GradientFlow find_gradients(const Graph&, const Specs&, const std::function<bool(const GraphInput&)>& wanted);

}  // namespace d5
