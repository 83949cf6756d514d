// SPDX-License-Identifier: Apache-2.0
// Operators that are made of others: those whose bodies are part of the network, so that no kernel can know them.
#include "d5/graph/modern/rewrite.hpp"
#include "d5/operators/onnx_type.hpp"

namespace d5 {
namespace {

// Sizes first to last - 1 of a value.
std::string sizes(Rewrite& r, const std::string& value, int64_t first, int64_t last) {
  return r.before("Shape", {value}, {{"start", first}, {"end", last}});
}

// Each head of K or V for as many heads of Q as share it, in order.
std::string repeated_heads(Rewrite& r, const std::string& q, const std::string& kv) {
  const Attributes rows{{"axis", int64_t{0}}};
  const std::string heads = sizes(r, kv, 1, 2), group = r.before("Div", {sizes(r, q, 1, 2), heads});
  const std::string rest = sizes(r, kv, 2, 4);
  const std::string wide = r.before("Concat", {sizes(r, kv, 0, 1), heads, group, rest}, rows);
  const std::string whole = r.before("Concat", {sizes(r, q, 0, 2), rest}, rows);
  const std::string apart = r.before("Unsqueeze", {kv, r.constant({2})});
  return r.before("Reshape", {r.before("Expand", {apart, wide}), whole});
}

// FlexAttention (ai.onnx.preview, version 1), with bodies that change scores and probabilities:
//   Y = prob_mod(softmax(score_mod(scale Q K^T))) V      scale = 1 / sqrt(head size) where none is given
void flex_attention(Rewrite& r) {
  const Attributes a = r.node.attributes;
  const std::string q = r.input(0), v = r.input(2);
  const std::string k = repeated_heads(r, q, r.input(1)), values = repeated_heads(r, q, v);
  std::string scale;
  if (a.has("scale")) {
    scale = r.constant(Tensor::scalar(a.real("scale", 1), DType::f32).reshaped({1}));
  } else {
    const std::string size = r.before("Cast", {sizes(r, q, 3, 4)}, {{"to", onnx_number(DType::f32)}});
    scale = r.before("Reciprocal", {r.before("Sqrt", {size})});
  }
  const bool is_double = r.is_known(q) && r.dtype(q) == DType::f64;
  const int64_t precision = a.integer("softmax_precision", onnx_number(is_double ? DType::f64 : DType::f32));
  const std::string turned = r.before("Transpose", {k}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const std::string products = r.before("MatMul", {q, turned});
  std::string scores =
      r.before("Cast", {r.before("Mul", {products, r.before("CastLike", {scale, q})})}, {{"to", precision}});
  if (const auto body = a.graph("score_mod")) scores = r.inline_body(*body, {scores});
  std::string shares = r.before("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (const auto body = a.graph("prob_mod")) shares = r.inline_body(*body, {shares});
  r.node.op = "MatMul";
  r.node.inputs = {r.before("CastLike", {shares, v}), values};
  r.node.attributes = {};
}

constexpr Rule rules[] = {{"ai.onnx.preview:FlexAttention", 2, flex_attention}};

}  // namespace

std::span<const Rule> composed_rules() { return rules; }

}  // namespace d5
