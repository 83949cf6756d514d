// SPDX-License-Identifier: Apache-2.0
// FlexAttention (ai.onnx.preview): attention whose scores and weights pass through bodies. Heads of Q share heads of K
// and V in groups.
//   s = score_mod(scale Q K^T)      p = prob_mod(softmax(s))      Y = p V
// s and p are of type softmax_precision, by default f32, f64 for inputs of f64.
#include <cmath>

#include "d5/graph/evaluate.hpp"
#include "d5/graph/onnx/element_types.hpp"

namespace d5 {
namespace {

struct Sizes {
  Index batch, heads, kv_heads, queries, keys, size, v_size;
  Index kv(Index b, Index head) const { return b * kv_heads + head / (heads / kv_heads); }
};

Sizes sizes_of(const Shape& q, const Shape& k, const Shape& v) {
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && k[0] == q[0] && v[0] == q[0] && k[1] > 0 &&
                    q[1] % k[1] == 0 && v[1] == k[1] && k[3] == q[3] && v[2] == k[2];
  if (!fits)
    throw CannotRun("Q is {}, K {} and V {}; n x heads x length x size is wanted of each", to_string(q), to_string(k),
                    to_string(v));
  return {q[0], q[1], k[1], q[2], k[2], q[3], v[3]};
}

// One sample and head of the queries after the other; f(sample, head).
template <class F>
void for_each_head(const Sizes& s, F&& f) {
  for (Index b = 0; b < s.batch; ++b)
    for (Index head = 0; head < s.heads; ++head) f(b, head);
}

Tensor passed_through(const ValueCall& call, const char* attribute, const Tensor& tensor) {
  if (!call.node.attributes.has(attribute)) return tensor;
  const auto made = call.evaluator.run_body(call.body(attribute), {tensor}, &call.scope);
  if (made.size() != 1) throw Error("{} makes {} values; one is wanted", attribute, made.size());
  const Tensor& result = made[0].as_tensor();
  if (result.dtype() != tensor.dtype() || result.shape() != tensor.shape())
    throw Error("{} makes {}; {} is wanted", attribute, to_string(made[0]), to_string(GraphValue(tensor)));
  return result;
}

std::vector<GraphValue> run_flex_attention(const ValueCall& call) {
  const auto wide = [&](size_t i) { return call.inputs.at(i).as_tensor().cast(DType::f64); };
  const DType type = call.inputs.at(0).as_tensor().dtype();
  const Tensor q = wide(0), k = wide(1), v = wide(2);
  const Sizes s = sizes_of(q.shape(), k.shape(), v.shape());
  const Attributes& a = call.node.attributes;
  const DType precision = a.has("softmax_precision") ? element_type(a.integer("softmax_precision", 1))
                          : type == DType::f64       ? DType::f64
                                                     : DType::f32;
  const double scale = a.real("scale", 1 / std::sqrt(static_cast<double>(s.size)));

  Tensor scores(DType::f64, {s.batch, s.heads, s.queries, s.keys});
  for_each_head(s, [&](Index b, Index head) {
    const double* rows = q.values<double>().data() + (b * s.heads + head) * s.queries * s.size;
    const double* columns = k.values<double>().data() + s.kv(b, head) * s.keys * s.size;
    double* to = scores.values<double>().data() + (b * s.heads + head) * s.queries * s.keys;
    for (Index i = 0; i < s.queries; ++i)
      for (Index j = 0; j < s.keys; ++j) {
        double sum = 0;
        for (Index d = 0; d < s.size; ++d) sum += rows[i * s.size + d] * columns[j * s.size + d];
        *to++ = scale * sum;
      }
  });
  const Node softmax{.op = "Softmax", .name = call.node.name, .inputs = {"s"}, .outputs = {"p"}};
  const Tensor changed = passed_through(call, "score_mod", scores.cast(precision));
  const Tensor weights = evaluate_node(softmax, *make_operator(softmax), {changed}, call.evaluator.options()).at(0);
  const Tensor p = passed_through(call, "prob_mod", weights).cast(DType::f64);

  Tensor y(DType::f64, {s.batch, s.heads, s.queries, s.v_size});
  y.fill_bytes(0);
  for_each_head(s, [&](Index b, Index head) {
    const double* rows = p.values<double>().data() + (b * s.heads + head) * s.queries * s.keys;
    const double* values = v.values<double>().data() + s.kv(b, head) * s.keys * s.v_size;
    double* to = y.values<double>().data() + (b * s.heads + head) * s.queries * s.v_size;
    for (Index i = 0; i < s.queries; ++i)
      for (Index j = 0; j < s.keys; ++j)
        for (Index d = 0; d < s.v_size; ++d) to[i * s.v_size + d] += rows[i * s.keys + j] * values[j * s.v_size + d];
  });
  return {y.cast(type)};
}

constexpr ValueFunctionRow rows[] = {{"ai.onnx.preview:FlexAttention", run_flex_attention}};

}  // namespace

std::span<const ValueFunctionRow> attention_functions() { return rows; }

}  // namespace d5
