// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/network.hpp"

#include <algorithm>

#include "d5/networks/form.hpp"

namespace d5 {
namespace {

// Padding counts, unlike in Operator::cost, and causality saves nothing.
double multiply_adds(const Node& node, const std::vector<TensorSpec>& in, const std::vector<TensorSpec>& out) {
  const auto count = [](const TensorSpec& spec) { return static_cast<double>(spec.elements()); };
  const auto places = [&](const TensorSpec& spec) {
    return count(spec) / static_cast<double>(spec.shape[1]);  // samples and pixels
  };
  const auto size = [](const TensorSpec& spec, int64_t axis, std::string_view place) {
    return static_cast<double>(spec.shape[valid_axis(axis, spec.shape.rank(), place)]);
  };
  if (node.op == "Conv") return count(in[1]) * places(out[0]);
  if (node.op == "ConvTranspose") return count(in[1]) * places(in[0]);
  if (node.op == "Gemm") return count(out[0]) * size(in[0], node.attributes.flag("transA", false) ? 0 : 1, "[gemm]");
  if (node.op == "MatMul") return count(out[0]) * size(in[0], -1, "[matmul]");
  if (node.op == "Attention" && in[0].shape.rank() == 3)
    return (count(in[0]) + count(out[0])) * size(in[1], 1, "[attention]");
  if (node.op == "LSTM") return (count(in[1]) + count(in[2])) * static_cast<double>(in[0].shape[0] * in[0].shape[1]);
  return 0;
}

}  // namespace

Graph build_network(std::string_view name, const Attributes& values, Index batch, DType dtype, Mode mode) {
  const NetworkEntry& entry = registered<networks>(name);
  const Attributes complete = complete_values(name, entry.parameters, values);
  // No network needs more, and the product of three such sizes is still a number.
  constexpr int64_t most = 1 << 20;
  for (const auto& [key, value] : complete.values())
    if (const auto* number = std::get_if<int64_t>(&value); number && (*number < 0 || *number > most))
      throw UsageError("[{}] {} is {}; 0 to {} are legal", name, key, *number, most);
  if (batch < 1) throw UsageError("[{}] batch is {}; at least 1 is wanted", name, batch);
  Graph graph = entry.build(complete, batch, dtype);
  return mode == Mode::training ? training_form(std::move(graph)) : inference_form(std::move(graph));
}

int64_t in_range(const Attributes& values, const std::string& name, int64_t low, int64_t high,
                 std::string_view network) {
  const int64_t value = values.integer(name, 0);
  if (value < low || value > high)
    throw UsageError("[{}] {} is {}; {} to {} are legal", network, name, value, low, high);
  return value;
}

std::string choice(const Attributes& values, const std::string& name, const std::vector<std::string>& legal,
                   std::string_view network) {
  const std::string text = values.text(name, "");
  if (std::ranges::find(legal, text) == legal.end()) fail_unknown(fmt::format("[{}]", network), name, text, legal);
  return text;
}

NetworkFigures figures(const Graph& graph) {
  NetworkFigures result;
  for (const GraphInput& input : graph.inputs)
    if (input.parameter && input.differentiable) result.parameters += input.spec.elements();
  const Specs specs = infer_specs(graph);
  for (const Node& node : graph.nodes) {
    const auto op = make_operator(node);
    const auto in = specs_of(specs, node.inputs), out = specs_of(specs, node.outputs);
    result.forward_flops += op->cost(in, Pass::forward).flops;
    result.backward_flops += op->cost(in, Pass::backward).flops;
    result.multiply_adds += multiply_adds(node, in, out);
  }
  return result;
}

}  // namespace d5
