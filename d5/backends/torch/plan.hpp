// SPDX-License-Identifier: Apache-2.0
// What is known of a graph before anything is allocated: its values by number, its nodes with the functions that
// compute them, and which gradients are wanted. Private to executable.cpp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {

struct PlannedValue {
  std::string name;
  TensorSpec spec;
  bool input = false, parameter = false, constant = false, output = false, differentiable = true;
  bool gradient = false;  // an input's, wanted; or an output's, which is seeded
  bool asked = false;     // CompileOptions::keep: it can be read after a run
  bool channels_last = false;
  Prepared::Rows rows;  // empty: as ONNX has them
  std::vector<size_t> readers;

  bool kept() const { return input || constant || output || asked; }
};

struct PlannedNode {
  Prepared prepared;
  std::function<std::string()> overrun;  // of what is not ATen's (custom.hpp); null: nobody watches
  std::vector<int> inputs, outputs;      // numbers of values; -1 is absent
  std::vector<int> dies;                 // values that nobody needs after this node
};

class Plan {
 public:
  // Error with the reason where a node cannot run. `position` is read by nodes when they run.
  Plan(const Graph&, const CompileOptions&, at::Device, const Position* position);

  std::vector<PlannedValue> values;
  std::vector<PlannedNode> nodes;  // as in the graph

  int number(const std::string& name) const;  // UsageError with the nearest name
  // Parameters in the order in which their gradients become ready.
  std::vector<int> parameters(const Graph&) const;

 private:
  void find_gradients(const Graph&, const CompileOptions&);
  int add(const std::string& name, const TensorSpec&);

  std::map<std::string, int> numbers_;
};

}  // namespace d5::libtorch
