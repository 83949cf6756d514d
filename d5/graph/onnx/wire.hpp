// SPDX-License-Identifier: Apache-2.0
// A look at the bytes of a message before protobuf gets them: it says where a file is cut off, and refuses one that
// would need far more memory than it has bytes (a message of two bytes becomes an object of two hundred).
#pragma once

#include <string_view>

namespace d5 {

enum class WireKind {
  model,
  graph,
  node,
  attribute,
  tensor,
  sparse_tensor,
  value_info,
  type,
  tensor_type,
  element_type,
  map_type,
  shape,
  function,
  training,
  annotation,
  sequence,
  map,
  optional,
  leaf
};

// Error: "cut off in graph.node.attribute at byte 1234", or why it is refused.
void check_wire(std::string_view bytes, WireKind);

}  // namespace d5
