// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/opsets.hpp"

#include <algorithm>
#include <map>

#include "d5/graph/edit.hpp"

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

// Operators that have an element type later than most, or than the base version.
struct LateType {
  std::vector<std::string_view> ops;
  std::vector<DType> types;
  int64_t version;
};
const std::vector<LateType>& late_types() {
  using enum DType;
  static const std::vector<DType> float8{f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz};
  static const std::vector<LateType> rows{
      {{"Equal"}, {string}, 19},
      {{"DequantizeLinear", "QuantizeLinear"}, {f16}, 19},
      {{"ReduceMax", "ReduceMin"}, {boolean}, 20},
      {{"IsInf"}, {f16}, 20},
      {{"ConstantOfShape", "IsInf", "IsNaN"}, float8, 20},
      {{"DequantizeLinear", "QuantizeLinear"}, {i16, u16}, 21},
      {{"QLinearMatMul"}, {f16}, 21},
      {{"Flatten", "Pad", "QLinearMatMul", "Squeeze", "Transpose", "Unsqueeze"}, float8, 21},
      {{"Dropout"}, float8, 22},
      {{"SplitToSequence", "TopK"}, {bf16}, 24},
      {{"Range"}, {f16, bf16}, 27},
      {{"BitShift"}, {i8, i16, i32, i64}, 28},
      {{"Celu"}, {f16, bf16, f64}, 28},
      {{"Compress", "Einsum", "OneHot", "ReverseSequence", "Unique"}, {bf16}, 28}};
  return rows;
}

int64_t version_of_types(const Node& node, const Specs& specs) {
  int64_t version = base;
  for (const LateType& row : late_types()) {
    if (std::ranges::find(row.ops, node.op) == row.ops.end()) continue;
    for (const auto* names : {&node.inputs, &node.outputs})
      for (const std::string& name : *names)
        if (const auto found = specs.find(name);
            found != specs.end() && std::ranges::find(row.types, found->second.dtype) != row.types.end())
          version = std::max(version, row.version);
  }
  return version;
}

// A body that knows of the values around it what is known there.
Graph with_captured(const Graph& body, const Specs& outside) {
  Graph inner = body;
  for (const std::string& name : captured_values(body))
    if (const auto found = outside.find(name); found != outside.end())
      inner.inputs.push_back({.name = name, .spec = found->second});
  return inner;
}

int64_t opset_of_nodes(const Graph& graph) {
  int64_t version = base;
  const Specs specs = infer_some_specs(graph).specs;
  for (const auto& [name, spec] : specs) version = std::max(version, first_version(spec.dtype));
  for (const Node& node : graph.nodes) {
    version = std::max(version, version_of_types(node, specs));
    if (const auto found = first_versions().find(node.op); found != first_versions().end())
      version = std::max(version, found->second);
    for (const auto& [name, value] : node.attributes.values()) {
      if (const auto found = attribute_versions().find({node.op, name}); found != attribute_versions().end())
        version = std::max(version, found->second);
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value))
        version = std::max(version, opset_of_nodes(with_captured(**body, specs)));
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
