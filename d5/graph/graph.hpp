// SPDX-License-Identifier: Apache-2.0
// A network as plain data. One operator is a graph of one node, so levels 0 and 1 share everything.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "d5/graph/value.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {

// A graph or a node of it cannot be run here: an operator, an element type or a form of it that is missing, or inputs
// that do not fit. Whoever runs many graphs reports the reason and goes on.
class CannotRun : public Error {
  using Error::Error;
};

struct Node {
  std::string op;                   // ONNX's name: "Conv"; of another domain: "ai.onnx.ml:Scaler"
  std::string name;                 // unique in the graph; for messages
  std::vector<std::string> inputs;  // names of values; "" is an absent optional input
  std::vector<std::string> outputs;
  Attributes attributes;
  // In a function: an attribute that takes the value of this attribute of the function.
  std::map<std::string, std::string> references = {};
  std::string file_rest = {};  // see Graph::file_rest
};

struct GraphInput {
  std::string name;
  TensorSpec spec;
  bool parameter = false;      // a trainable weight rather than data
  bool differentiable = true;  // false: nobody may ask for its gradient (running statistics)
  // By axis: "N" where the spec holds what is bound to a free size; "" (or none at all): fixed. The one symbol "*": not
  // even the number of axes is given.
  std::vector<std::string> symbols = {};
  // How a parameter starts: "zeros", "ones", "he", ... A value in Graph::initial comes first.
  std::string initialiser = {};
  ValueKind kind = ValueKind::tensor;  // what is no tensor has no spec
};

// An operator that a file brings along, as nodes.
struct Function {
  std::string op;  // as Node::op
  std::vector<std::string> inputs, outputs;
  Attributes defaults;  // of its attributes; those without one are not here
  std::map<std::string, int64_t> opsets;
  std::vector<Node> nodes;
  std::string file_rest = {};
};

struct Graph {
  std::string name;
  std::vector<GraphInput> inputs;
  std::vector<std::string> outputs;
  std::map<std::string, Tensor> constants;
  std::map<std::string, Tensor> initial;  // of parameters: values before the first step (read from a file)
  std::vector<Node> nodes;                // in an order in which they can run
  // By domain ("" is ONNX's own): the version in whose words the nodes are. None at all: d5's own words, which mean
  // what they mean in the newest version (graph/modernise.hpp).
  std::map<std::string, int64_t> opsets = {};
  std::vector<Function> functions = {};
  std::map<std::string, std::string> metadata = {};  // small texts that travel with the network
  // What a file holds beyond all this, for whoever writes it again (graph/onnx/): its message (of the model, or of the
  // graph inside an attribute) without what is in the other members.
  std::string file_rest = {};
};

using Specs = std::map<std::string, TensorSpec>;

// Specs of every value. Error names the node: unknown operator, missing value, shapes that do not fit. What can be
// computed before the run from small known values (shapes) is known.
Specs infer_specs(const Graph&);

// As much as can be told: nodes that fail, and those behind them, are left out. `failed`: the first of them and why.
struct PartialSpecs {
  Specs specs;
  std::optional<size_t> failed;
  std::string reason;
  bool lacks_value = false;  // the reason is a value that only the run gives
};
PartialSpecs infer_some_specs(const Graph&);
// Those of one node.
std::vector<TensorSpec> infer_node(const Node&, const Operator&, const std::vector<TensorSpec>& in);

bool is_random(const std::string& op);  // its results differ from run to run; Dropout where it trains

std::unique_ptr<Operator> make_operator(const Node&);
// In the order of the node's inputs or outputs; absent ones are TensorSpec::absent().
std::vector<TensorSpec> specs_of(const Specs&, const std::vector<std::string>& names);

// The words of an error with a node in front, unless an inner graph put one there already.
std::string placed(const std::string& place, const Error&);

// One operator as a graph: inputs "x0", "x1", ..., outputs "y0", ...
Graph single_node_graph(const std::string& op, const OperatorCase&);

}  // namespace d5
