// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/samples.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "d5/core/rng.hpp"
#include "d5/networks/loss.hpp"

namespace d5 {
namespace {

// How many things an integer named `name` chooses from, looked up behind operators that leave values as they are.
std::optional<Index> choices(const Graph& graph, const Specs& specs, const std::string& name) {
  static constexpr std::array keeps{"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Transpose", "Cast"};
  for (const Node& node : graph.nodes) {
    const auto at = std::ranges::find(node.inputs, name) - node.inputs.begin();
    if (at == static_cast<std::ptrdiff_t>(node.inputs.size())) continue;
    const bool is_loss =
        node.op == "SoftmaxCrossEntropyLoss" || node.op == "NegativeLogLikelihoodLoss" || node.op == "CrossEntropy";
    if (is_loss && at == 1) return specs.at(node.inputs[0]).shape[1];
    if ((node.op == "Gather" || node.op == "GatherElements") && at == 1) {
      const Shape& x = specs.at(node.inputs[0]).shape;
      return x[valid_axis(node.attributes.integer("axis", 0), x.rank(), "[gather]")];
    }
    if (at == 0 && std::ranges::find(keeps, node.op) != keeps.end())
      if (const auto behind = choices(graph, specs, node.outputs[0])) return behind;
  }
  return {};
}

}  // namespace

std::map<std::string, Tensor> sample_inputs(const Graph& graph, uint64_t seed) {
  const Specs specs = infer_specs(graph);
  std::map<std::string, Tensor> values;
  for (const GraphInput& input : graph.inputs) {
    if (input.parameter) continue;
    const Tensor tensor(input.spec.dtype, input.spec.shape);
    const Rng rng(seed, stream_of(input.name));
    if (!is_float(input.spec.dtype))
      fill_integers(tensor, rng, 0, std::max<Index>(1, choices(graph, specs, input.name).value_or(2)) - 1);
    else if (input.name == target_name)
      fill_uniform(tensor, rng, 0, 1);
    else
      fill_normal(tensor, rng, 0, 1);
    values[input.name] = tensor;
  }
  return values;
}

}  // namespace d5
