// SPDX-License-Identifier: Apache-2.0
// One node on its way to d5's words, and the rules that take it there.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "d5/graph/graph.hpp"

namespace d5 {

class Rewrite {
 public:
  using Fresh = std::function<std::string(const std::string& base)>;
  using FindSpec = std::function<const TensorSpec*(const std::string& value)>;
  Rewrite(Node given, int64_t opset, Graph& graph, const Fresh& fresh, const FindSpec& find_spec)
      : node(std::move(given)), version(opset), graph_(graph), fresh_(fresh), find_spec_(find_spec) {}

  Node node;
  const int64_t version;  // of the opset that the node was written in

  bool has_input(size_t i) const { return i < node.inputs.size() && !node.inputs[i].empty(); }
  const std::string& input(size_t i) const;  // Error where it is not there: a file may say anything
  void set_input(size_t i, std::string value);
  // Takes the attribute away and makes it input i, a constant. False: it is not there.
  bool move_to_input(const std::string& attribute, size_t i);

  std::string fresh(const std::string& base) { return fresh_(base); }  // a name that no value has yet
  std::string constant(Tensor);                                        // of the graph; its name
  std::string constant(const std::vector<int64_t>& list);
  std::string number_like(double number, const std::string& value);  // a constant of that value's element type
  // A new node before this one; the name of its result.
  std::string before(const std::string& op, std::vector<std::string> inputs, Attributes attributes = {});
  // A new node that makes output i from what this one makes.
  void after(const std::string& op, size_t output, std::vector<std::string> more_inputs = {},
             Attributes attributes = {});

  // The body's nodes before this one, run on these values; its first result.
  std::string inline_body(const Graph& body, const std::vector<std::string>& inputs);

  // CannotRun where it cannot be told.
  size_t rank(const std::string& value) const;
  DType dtype(const std::string& value) const;
  bool is_known(const std::string& value) const { return find_spec_(value) != nullptr; }
  bool is_empty(const std::string& value) const { return is_known(value) && spec(value).elements() == 0; }

  std::vector<Node> result() &&;

 private:
  const TensorSpec& spec(const std::string& value) const;
  Graph& graph_;
  const Fresh& fresh_;
  const FindSpec& find_spec_;
  std::vector<Node> before_, after_;
};

struct Rule {
  const char* op;  // "*": any
  int64_t until;   // nodes of opsets below this one
  void (*apply)(Rewrite&);
};

// By theme; within an operator the rules come in the order of `until`.
std::span<const Rule> legacy_rules();  // opset 6 and earlier: broadcasting, consumed_inputs, attributes that went
std::span<const Rule> moved_attribute_rules();  // attributes that became inputs
std::span<const Rule> changed_meaning_rules();  // defaults and meanings that changed, operators with a new name
std::span<const Rule> composed_rules();         // operators that are made of others

}  // namespace d5
