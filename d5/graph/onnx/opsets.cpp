// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/opsets.hpp"

#include <algorithm>
#include <map>

namespace d5 {
namespace {

constexpr int64_t base = 18;

// Operators that appeared, or got the meaning they have here, after the base version.
const std::map<std::string, int64_t>& first_versions() {
  static const std::map<std::string, int64_t> versions{{"AffineGrid", 20},
                                                       {"Attention", 24},
                                                       {"BitCast", 26},
                                                       {"CausalConvWithState", 27},
                                                       {"CumProd", 26},
                                                       {"DFT", 20},
                                                       {"DeformConv", 19},
                                                       {"Gelu", 20},
                                                       {"GridSample", 20},
                                                       {"GroupNormalization", 21},
                                                       {"HardSwish", 14},
                                                       {"ImageDecoder", 20},
                                                       {"LinearAttention", 27},
                                                       {"Mish", 18},
                                                       {"RMSNormalization", 23},
                                                       {"RegexFullMatch", 20},
                                                       {"RotaryEmbedding", 23},
                                                       {"StringConcat", 20},
                                                       {"StringSplit", 20},
                                                       {"SwiGLU", 28},
                                                       {"Swish", 24},
                                                       {"TensorScatter", 24}};
  return versions;
}

// Attributes that came later than their operator.
const std::map<std::pair<std::string, std::string>, int64_t>& attribute_versions() {
  static const std::map<std::pair<std::string, std::string>, int64_t> versions{
      {{"Attention", "left_window_size"}, 25},
      {{"Attention", "right_window_size"}, 25},
      {{"AveragePool", "dilations"}, 19},
      {{"Cast", "saturate"}, 19},
      {{"Cast", "round_mode"}, 24},
      {{"CastLike", "saturate"}, 19},
      {{"CastLike", "round_mode"}, 24},
      {{"DequantizeLinear", "block_size"}, 21},
      {{"DequantizeLinear", "output_dtype"}, 23},
      {{"QuantizeLinear", "block_size"}, 21},
      {{"QuantizeLinear", "output_dtype"}, 21},
      {{"QuantizeLinear", "precision"}, 23},
      {{"QuantizeLinear", "saturate"}, 19},
      {{"Range", "stash_type"}, 27}};
  return versions;
}

// Element types that most operators have only since then.
int64_t first_version(DType type) {
  switch (type) {
    case DType::bf16: return 22;
    case DType::f8e4m3fn:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2:
    case DType::f8e5m2fnuz: return 19;
    case DType::i4:
    case DType::u4: return 21;
    case DType::f4e2m1: return 23;
    case DType::f8e8m0: return 24;
    case DType::i2:
    case DType::u2: return 25;
    case DType::f6e2m3:
    case DType::f6e3m2: return 28;
    default: return base;
  }
}

int64_t opset_of_nodes(const Graph& graph) {
  int64_t version = base;
  for (const GraphInput& input : graph.inputs)
    if (input.kind == ValueKind::tensor) version = std::max(version, first_version(input.spec.dtype));
  for (const auto* tensors : {&graph.constants, &graph.initial})
    for (const auto& [name, tensor] : *tensors) version = std::max(version, first_version(tensor.dtype()));
  for (const Node& node : graph.nodes) {
    if (const auto found = first_versions().find(node.op); found != first_versions().end())
      version = std::max(version, found->second);
    for (const auto& [name, value] : node.attributes.values()) {
      if (const auto found = attribute_versions().find({node.op, name}); found != attribute_versions().end())
        version = std::max(version, found->second);
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value))
        version = std::max(version, opset_of_nodes(**body));
    }
  }
  return version;
}

}  // namespace

int64_t opset_of(const Graph& graph) { return opset_of_nodes(graph); }

int64_t ir_version_of(int64_t opset) {
  // The IR version of the release that brought the opset.
  static constexpr std::pair<int64_t, int64_t> first_opsets[] = {
      {28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}, {12, 7}, {11, 6}, {10, 5}, {9, 4}};
  for (const auto& [first, ir] : first_opsets)
    if (opset >= first) return ir;
  return 3;
}

}  // namespace d5
