// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/transformer.hpp"

#include <cmath>
#include <limits>

namespace d5 {
namespace {

// Zero where a place is seen, minus infinity where it is not.
Tensor causal_mask(Index length, DType type) {
  const Tensor mask(DType::f64, {length, length});
  for (Index i = 0; i < length; ++i)
    for (Index j = 0; j < length; ++j)
      mask.values<double>()[i * length + j] = j <= i ? 0 : -std::numeric_limits<double>::infinity();
  return mask.cast(type);
}

}  // namespace

Parameter attention_parameter() {
  return {"attention", "operator: ONNX's Attention; products: MatMul and Softmax", "operator"};
}

Edge rows(Builder& b, const std::string& name, const Edge& x) {
  return b.reshape(name + ".rows", x, {-1, x.spec.shape.back()});
}

Edge places(Builder& b, const std::string& name, const Edge& x, Index length) {
  return b.reshape(name + ".places", x, {-1, length, x.spec.shape.back()});
}

Edge attention(Builder& b, const std::string& name, const Edge& q, const Edge& k, const Edge& v, const Heads& h) {
  const Index width = q.size(1);
  if (h.heads < 1 || width % h.heads != 0)
    throw UsageError("[transformer] width is {}, heads {}; the width must be a multiple of the heads", width, h.heads);
  const auto part = [&](const char* what) { return name + "." + what; };
  if (!h.products) {
    const Edge y = b.node(
        "Attention", name,
        {places(b, part("q"), q, h.length), places(b, part("k"), k, h.length), places(b, part("v"), v, h.length)},
        {{"q_num_heads", h.heads}, {"kv_num_heads", h.heads}, {"is_causal", int64_t{h.causal}}});
    return rows(b, name, y);
  }
  const auto split = [&](const char* what, const Edge& x, std::vector<int64_t> order) {
    const Edge heads = b.reshape(part(what) + ".heads", x, {-1, h.length, h.heads, width / h.heads});
    return b.node("Transpose", part(what), {heads}, {{"perm", std::move(order)}});
  };
  const double scale = 1 / std::sqrt(static_cast<double>(width / h.heads));
  const Edge scaled = b.node(
      "Mul", part("scaled"),
      {split("q", q, {0, 2, 1, 3}), b.constant(fmt::format("scale {}", scale), Tensor::scalar(scale, b.dtype()))});
  Edge scores = b.node("MatMul", part("scores"), {scaled, split("k", k, {0, 2, 3, 1})});
  if (h.causal) scores = b.add(part("masked"), scores, b.constant("causal mask", causal_mask(h.length, b.dtype())));
  const Edge p = b.node("Softmax", part("softmax"), {scores}, {{"axis", int64_t{-1}}});
  const Edge y = b.node("MatMul", name, {p, split("v", v, {0, 2, 1, 3})});
  const Edge joined = b.node("Transpose", part("joined"), {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  return b.reshape(part("rows"), joined, {-1, width});
}

Edge positions(Builder& b, const std::string& name, Index rows, Index length, Index width) {
  if (length < 1 || length > rows)
    throw UsageError("[transformer] length is {}; 1 to {} places have positions", length, rows);
  const Edge table = b.parameter(name + ".weight", {rows, width}, "normal:0.02");
  if (length == rows) return table;
  return b.node(
      "Slice", name,
      {table, b.constant(name + ".first", {0}), b.constant(name + ".last", {length}), b.constant(name + ".axis", {0})});
}

}  // namespace d5
