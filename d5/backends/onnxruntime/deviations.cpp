// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onnxruntime/deviations.hpp"

#include <cmath>

namespace d5::onnxruntime {
namespace {

bool has_input(const Node& node, size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); }

// Its corners are those of the whole pixels alone.
bool is_resized_by_broken_pixels(const Node& node, const Specs& specs) {
  if (node.op != "Resize" || !has_input(node, 2)) return false;
  if (node.attributes.text("coordinate_transformation_mode", "half_pixel") != "align_corners") return false;
  const TensorSpec &x = specs.at(node.inputs[0]), &scales = specs.at(node.inputs[2]);
  if (!scales.known) return true;
  const Tensor wide = scales.known->cast(DType::f64);
  const auto axes = node.attributes.integers("axes");
  for (Index i = 0; i < wide.elements(); ++i) {
    const auto at = static_cast<size_t>(i);
    const size_t axis = axes.empty() ? at : valid_axis(axes.at(at), x.shape.rank(), "[onnxruntime]");
    const double size = wide.values<double>()[at] * static_cast<double>(x.shape[axis]);
    if (size != std::floor(size)) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> deviation(const Graph& graph, const Specs& specs) {
  for (const Node& node : graph.nodes) {
    if (node.op == "MaxUnpool" && has_input(node, 2))
      return fmt::format(
          "node '{}' (MaxUnpool): onnxruntime counts its indices in output_shape, ONNX in the pooled one", node.name);
    if (node.op == "Attention" && node.outputs.size() > 3 && !node.outputs[3].empty() &&
        node.attributes.flag("is_causal", false))
      return fmt::format("node '{}' (Attention): onnxruntime hides scores by the lowest number, ONNX by -infinity",
                         node.name);
    if (is_resized_by_broken_pixels(node, specs))
      return fmt::format("node '{}' (Resize): onnxruntime aligns corners to whole pixels, ONNX to scale * size",
                         node.name);
  }
  return {};
}

}  // namespace d5::onnxruntime
