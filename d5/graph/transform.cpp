// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/transform.hpp"

namespace d5 {
namespace {

template <class F>
void each_transform(const std::string& names, const F& f) {
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string one = names.substr(begin, end - begin);
    const size_t colon = std::min(one.find(':'), one.size());
    f(*registered<transforms>(one.substr(0, colon)).make(colon < one.size() ? one.substr(colon + 1) : ""));
    begin = end + 1;
  }
}

}  // namespace

Graph transformed(Graph graph, const std::string& names) {
  each_transform(names, [&](const Transform& transform) { graph = transform.apply(std::move(graph)); });
  return graph;
}

Execution execution_of(const std::string& names) {
  Execution execution;
  each_transform(names, [&](const Transform& transform) { transform.ask(execution); });
  return execution;
}

}  // namespace d5
