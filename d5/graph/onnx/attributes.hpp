// SPDX-License-Identifier: Apache-2.0
// Attributes of ONNX messages. What no Value can hold (types, lists of tensors or graphs) stays in the message.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "d5/graph/graph.hpp"
#include "d5/graph/onnx/messages.hpp"

namespace d5 {

// Reads and writes of graphs inside attributes are the caller's, who knows how deep they are.
struct AttributeContext {
  std::filesystem::path folder;
  Index* dense_left = nullptr;  // of the file: dense_tensor
  std::function<Graph(pb::Graph&)> take_graph;
};

// Takes the value out of the message. Empty: it stays there.
std::optional<Value> take_attribute(pb::Attribute&, const AttributeContext&);

// The inverse, into a message that take_attribute left or a new one.
void put_attribute(pb::Attribute&, const Value&, bool is_new, const std::function<void(pb::Graph&, const Graph&)>&);
// Is the value still in the message that take_attribute left?
bool stays_in_message(const pb::Attribute&);

}  // namespace d5
