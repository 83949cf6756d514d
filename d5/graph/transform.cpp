// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/transform.hpp"

namespace d5 {

Graph transformed(Graph graph, const std::string& names) {
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string one = names.substr(begin, end - begin);
    const size_t colon = std::min(one.find(':'), one.size());
    const auto transform =
        registered<transforms>(one.substr(0, colon)).make(colon < one.size() ? one.substr(colon + 1) : "");
    graph = transform->apply(std::move(graph));
    begin = end + 1;
  }
  return graph;
}

}  // namespace d5
