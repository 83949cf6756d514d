// SPDX-License-Identifier: Apache-2.0
// Runs a graph by the operators' own loops, node by node, with shapes as they come: for constants that can be computed
// before the run, for networks whose shapes depend on values, and for control flow (If, Loop, Scan), sequences and
// optionals. Every result is rounded to its own type. Slow, right, and bounded: a loop that does not end and a tensor
// that does not fit are errors.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "d5/graph/graph.hpp"
#include "d5/graph/value.hpp"

namespace d5 {

struct EvaluateOptions {
  int64_t most_iterations = 1'000'000;  // of all loops in one run
  int64_t most_entries = 100'000'000;   // of sequences that are copied to be changed, in one run
  size_t most_bytes = size_t{8} << 30;  // of all values alive in one graph, and of one result in double
  Position position = {};               // keys random numbers
  std::function<void(const Node&)> begin = {}, end = {};  // around every node, bodies included
  // Sees what a node made of tensors before anybody reads it, and may change it.
  std::function<void(const Node&, const Operator&, const std::vector<Tensor>& inputs, std::vector<Tensor>& results)>
      made = {};
};

// Values by name, seen from inside a graph: its own, its constants, then those of the graphs around it.
struct ValueScope {
  const Graph* graph = nullptr;
  const ValueScope* outer = nullptr;
  std::unordered_map<std::string, GraphValue> values = {};

  GraphValue find(const std::string& name) const;  // Error where nobody made it
};

class Evaluator {
 public:
  // The graph is in d5's own words (graph/modernise.hpp) and stays where it is.
  explicit Evaluator(const Graph&, EvaluateOptions = {});

  // Inputs by name; the outputs come in the order of Graph::outputs.
  std::vector<GraphValue> run(const std::map<std::string, GraphValue>& inputs);
  // A body: inputs in the order of its own.
  std::vector<GraphValue> run_body(const Graph& body, std::vector<GraphValue> inputs, const ValueScope* outer);

  EvaluateOptions& options() { return options_; }
  // Of the run that goes on; Error beyond the most.
  void count_iteration();
  void count_entries(size_t);

 private:
  struct Plan {
    std::vector<std::unique_ptr<Operator>> ops;        // null: a node whose values are no tensors
    std::vector<std::vector<std::string>> last_reads;  // by node: what nobody reads after it
  };
  const Plan& plan(const Graph&);
  std::vector<GraphValue> run_nodes(const Graph&, ValueScope&);
  std::vector<GraphValue> run_node(const Node&, const Operator*, const ValueScope&);

  const Graph& graph_;
  EvaluateOptions options_;
  int64_t iterations_ = 0, entries_ = 0;
  std::map<const Graph*, Plan> plans_;
};

// One node on tensors, by its operator's own loops.
std::vector<Tensor> evaluate_node(const Node&, const Operator&, const std::vector<Tensor>& inputs,
                                  const EvaluateOptions& = {});

// A node whose values are no tensors or that runs a body: a call, and what makes its results.
struct ValueCall {
  const Node& node;
  std::vector<GraphValue> inputs;
  Evaluator& evaluator;
  const ValueScope& scope;

  bool has(size_t i) const { return i < inputs.size() && !node.inputs[i].empty(); }
  const GraphValue& input(size_t i) const;         // Error where it is not there
  const Graph& body(const char* attribute) const;  // Error where it has none
};
using ValueFunction = std::vector<GraphValue> (*)(const ValueCall&);
struct ValueFunctionRow {
  const char* op;
  ValueFunction run;
};
std::span<const ValueFunctionRow> control_flow_functions();  // control_flow.cpp
std::span<const ValueFunctionRow> sequence_functions();      // sequences.cpp
ValueFunction find_value_function(const std::string& op);    // or null

// Why a graph cannot be evaluated: the first operator, in bodies too, that nobody has. Empty: it can.
std::optional<std::string> unknown_operator(const Graph&);
// Does it need evaluation, because values are no tensors of numbers or a node runs a body? The reason, or empty.
std::optional<std::string> needs_evaluation(const Graph&);
// Why it cannot be laid out before the run: that, strings on the way, or a shape that only a value tells. Empty: it
// can.
std::optional<std::string> why_evaluated(const Graph&);

}  // namespace d5
