// SPDX-License-Identifier: Apache-2.0
// Leaves out nodes and constants that no output depends on. Inputs stay: whoever calls the network gives them.
#include <set>

#include "d5/graph/transform.hpp"

namespace d5 {
namespace {

// Names that the bodies of a node (If, Loop, Scan) take from outside count as read.
void add_reads(const Node& node, std::set<std::string>& needed) {
  needed.insert(node.inputs.begin(), node.inputs.end());
  for (const auto& [name, value] : node.attributes.values())
    if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value)) {
      for (const Node& inner : (*body)->nodes) add_reads(inner, needed);
      needed.insert((*body)->outputs.begin(), (*body)->outputs.end());
    }
}

class DeadCode final : public Transform {
 public:
  explicit DeadCode(const std::string& value) {
    if (!value.empty()) throw UsageError("[dead-code] it takes no value; '{}' was given", value);
  }
  static constexpr const char* about = "leaves out what no output depends on";

  Graph apply(Graph graph) const override {
    std::set<std::string> needed(graph.outputs.begin(), graph.outputs.end());
    std::vector<Node> kept;
    for (size_t n = graph.nodes.size(); n-- > 0;) {
      Node& node = graph.nodes[n];
      bool wanted = false;
      for (const std::string& output : node.outputs) wanted |= !output.empty() && needed.contains(output);
      if (!wanted) continue;
      add_reads(node, needed);
      kept.push_back(std::move(node));
    }
    graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
    std::erase_if(graph.constants, [&](const auto& constant) { return !needed.contains(constant.first); });
    return graph;
  }
};

}  // namespace
D5_REGISTER(transforms, "dead-code", DeadCode);
}  // namespace d5
