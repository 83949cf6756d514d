// SPDX-License-Identifier: Apache-2.0
// The backend "planted": the reference, but one Relu of the network is off in one element, by a little more than
// rounding allows. It refuses to work until a fault is planted.
#pragma once

#include <string>

#include "d5/backends/kernel.hpp"

namespace d5 {

struct PlantedFault {
  static inline std::string node;
  static inline Pass pass = Pass::forward;
  static inline float size = 1e-3f;
};

class PlantedRelu final : public Kernel {
 public:
  void prepare(KernelSetup& setup) override {
    spoilt_ = setup.node.name == PlantedFault::node;
    elements_ = static_cast<size_t>(setup.inputs[0].elements());
  }
  void bind(int binding, const Buffers& buffers) override {
    if (binding == 0) buffers_ = buffers;
  }
  void forward(int) override {
    const auto* x = static_cast<const float*>(buffers_.inputs[0]);
    auto* y = static_cast<float*>(buffers_.outputs[0]);
    for (size_t i = 0; i < elements_; ++i) y[i] = x[i] > 0 ? x[i] : 0;
    if (spoilt_ && PlantedFault::pass == Pass::forward) y[elements_ - 2] += PlantedFault::size;
  }
  void backward(int) override {
    const auto* x = static_cast<const float*>(buffers_.inputs[0]);
    const auto* dy = static_cast<const float*>(buffers_.output_gradients[0]);
    auto* dx = static_cast<float*>(buffers_.input_gradients[0]);
    for (size_t i = 0; i < elements_; ++i) dx[i] = x[i] > 0 ? dy[i] : 0;
    if (spoilt_ && PlantedFault::pass == Pass::backward) dx[0] += PlantedFault::size;
  }
  std::string implementation() const override { return "planted"; }

 private:
  bool spoilt_ = false;
  size_t elements_ = 0;
  Buffers buffers_;
};

class PlantedBackend final : public Backend {
 public:
  std::optional<std::string> why_not(const Graph& graph, const CompileOptions& options) const override {
    if (PlantedFault::node.empty()) return "no fault is planted";
    return reference_->why_not(graph, with_fault(graph, options));
  }
  std::unique_ptr<Executable> compile(const Graph& graph, ParameterSet& parameters,
                                      const CompileOptions& options) override {
    return reference_->compile(graph, parameters, with_fault(graph, options));
  }
  Facts facts() const override { return {{"library", "a fault"}}; }

 private:
  // A kernel by a name must have somebody who uses it.
  static CompileOptions with_fault(const Graph& graph, CompileOptions options) {
    for (const Node& node : graph.nodes)
      if (node.op == "Relu") options.kernel = "planted";
    return options;
  }
  std::unique_ptr<Backend> reference_ = open_backend("reference");
};

}  // namespace d5
