// SPDX-License-Identifier: Apache-2.0
// Networks that are built in. One file per family: it opens with the paper, then the class, then one line:
// D5_REGISTER(networks, "lenet", LeNet);   The class has static members
//   about                         one line: whose network, which variant
//   loss                          what it is trained with (loss.hpp); "": nothing of its own
//   parameters()                  named values (classes, size, width, ...) with defaults: the published network
//   build(values, batch, dtype)   the graph, in its training form (form.hpp); values are complete
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "d5/backends/backend.hpp"

namespace d5 {

struct NetworkEntry {
  std::string about, loss;
  std::vector<Parameter> parameters;
  std::function<Graph(const Attributes& values, Index batch, DType)> build;
};

struct networks {
  static constexpr const char* kind = "network";
  using Entry = NetworkEntry;
  template <class T>
  static Entry entry() {
    return {T::about, T::loss, T::parameters(),
            [](const Attributes& v, Index batch, DType d) { return T::build(v, batch, d); }};
  }
};

// The network of that name in the form that the mode asks for. UsageError on unknown names and values, Error where
// sizes do not fit (an image smaller than what the network divides it by).
Graph build_network(std::string_view name, const Attributes& values, Index batch, DType, Mode);

// For build(): a whole number that must lie in a range (how often a layer is repeated); UsageError otherwise.
int64_t in_range(const Attributes& values, const std::string& name, int64_t low, int64_t high,
                 std::string_view network);
// A text value of which only a few are legal; UsageError with these otherwise.
std::string choice(const Attributes& values, const std::string& name, const std::vector<std::string>& legal,
                   std::string_view network);

struct NetworkFigures {
  Index parameters = 0;  // trainable ones; running statistics do not count
  double forward_flops = 0, backward_flops = 0;
  double multiply_adds = 0;  // of products and convolutions, as papers count them
};
NetworkFigures figures(const Graph&);

}  // namespace d5
