// SPDX-License-Identifier: Apache-2.0
// A network as plain data. One operator is a graph of one node, so levels 0 and 1 share everything.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "d5/operators/operator.hpp"

namespace d5 {

struct Node {
  std::string op;                   // ONNX's name: "Conv"; of another domain: "ai.onnx.ml:Scaler"
  std::string name;                 // unique in the graph; for messages
  std::vector<std::string> inputs;  // names of values; "" is an absent optional input
  std::vector<std::string> outputs;
  Attributes attributes;
};

struct GraphInput {
  std::string name;
  TensorSpec spec;
  bool parameter = false;      // a trainable weight rather than data
  bool differentiable = true;  // false: nobody may ask for its gradient (running statistics)
  // By axis: "N" where the spec holds what is bound to a free size; "" (or none at all): fixed.
  std::vector<std::string> symbols = {};
  // How a parameter starts: "zeros", "ones", "he", ... A value in Graph::initial comes first.
  std::string initialiser = {};
};

struct Graph {
  std::string name;
  std::vector<GraphInput> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, Tensor> constants;
  std::map<std::string, Tensor> initial;  // of parameters: values before the first step (read from a file)
  std::vector<Node> nodes;                // in an order in which they can run
};

using Specs = std::map<std::string, TensorSpec>;

// Specs of every value. Error names the node: unknown operator, missing value, shapes that do not fit.
Specs infer_specs(const Graph&);

std::unique_ptr<Operator> make_operator(const Node&);
// In the order of the node's inputs or outputs; absent ones are TensorSpec::absent().
std::vector<TensorSpec> specs_of(const Specs&, const std::vector<std::string>& names);

// One operator as a graph: inputs "x0", "x1", ..., outputs "y0", ...
Graph single_node_graph(const std::string& op, const OperatorCase&);

}  // namespace d5
