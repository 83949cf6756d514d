// SPDX-License-Identifier: Apache-2.0
// Editing a graph: find, insert, replace, remove, and the order of nodes. Names of values connect everything; the
// bodies of If, Loop and Scan read values of the graphs around them by name, which counts as a use here.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "d5/graph/graph.hpp"

namespace d5 {

inline constexpr size_t no_node = static_cast<size_t>(-1);

std::string describe(const Graph&, size_t node);  // "node 12 'conv1' (Conv)"

size_t find_node(const Graph&, const std::string& name);       // by its own name, or no_node
size_t find_producer(const Graph&, const std::string& value);  // the node that makes it, or no_node
std::vector<size_t> find_readers(const Graph&, const std::string& value);
std::vector<size_t> find_nodes(const Graph&, const std::string& op);
bool is_output(const Graph&, const std::string& value);

// What a node reads: its inputs, and what bodies in its attributes take from outside.
std::vector<std::string> values_read(const Node&);
// What a body takes from the graphs around it.
std::set<std::string> captured_values(const Graph& body);

// A name that no value and no node has yet: `base`, or base_2, base_3, ...
std::string fresh_name(const Graph&, const std::string& base);

void insert_node(Graph&, size_t before, Node);
// In place of a node: these, in this order.
void replace_node(Graph&, size_t node, std::vector<Node>);
// Removes the node; whoever reads its output reads `value` instead. Error where it has more outputs than one that is
// read.
void bypass_node(Graph&, size_t node, const std::string& value);
void remove_node(Graph&, size_t node);  // Error where somebody still reads what it makes
// Every reader of `from` reads `to`, bodies included; a graph output keeps its name and is made by an Identity.
void replace_value(Graph&, const std::string& from, const std::string& to);
// Nodes, constants and parameters that no output depends on. Returns how many nodes went.
size_t remove_dead(Graph&);

// Nodes in an order in which they can run, as near to the given one as possible. Error names the nodes of a cycle, a
// value that two nodes make, and one that nobody makes. `outside`: values that graphs around it have.
void sort_nodes(Graph&, const std::function<bool(const std::string& value)>& outside = {});

// The nodes of a body for use in the graph around it: its inputs are the values `inputs`, names of its own get fresh
// ones, with `prefix` in front.
struct InlinedBody {
  std::vector<Node> nodes;
  std::map<std::string, Tensor> constants;
  std::vector<std::string> outputs;
};
InlinedBody inlined_body(const Graph& body, const std::vector<std::string>& inputs, const std::string& prefix,
                         const std::function<std::string(const std::string& base)>& fresh);

// In a body and the bodies inside it: names taken from outside are replaced.
Graph rename_captured(const Graph& body, const std::map<std::string, std::string>& names);

}  // namespace d5
