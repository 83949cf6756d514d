// SPDX-License-Identifier: Apache-2.0
// Attention by oneDNN's matmul and softmax over all heads at once, for comparison: the built-in one is our own
// (own/attention.cpp). Heads that lie within the last axis are read and written where they are, by strides. Causality
// is a mask that is added to the scores. In training forward keeps the weights P for backward
// (d5/operators/attention.cpp has the formulas).
#include <cmath>
#include <limits>

#include "d5/backends/onednn/kernel.hpp"

namespace d5::onednn {
namespace {

bool given(const std::vector<TensorSpec>& specs, size_t i) { return i < specs.size() && specs[i].present; }

struct AttentionDims {
  Index batch, heads, queries, keys, size, v_size;
  bool packed;

  explicit AttentionDims(const KernelSetup& setup) {
    const Shape &q = setup.inputs[0].shape, &k = setup.inputs[1].shape, &v = setup.inputs[2].shape;
    packed = q.rank() == 3;
    batch = q[0];
    heads = packed ? setup.node.attributes.integer("q_num_heads", 1) : q[1];
    queries = q[q.rank() - 2];
    keys = k[k.rank() - 2];
    size = packed ? q[2] / heads : q[3];
    v_size = packed ? v[2] / heads : v[3];
  }
  // Rows of all heads: (batch, heads, rows, width) wherever they lie.
  Desc rows(Index count, Index width) const {
    const Dims dims{batch, heads, count, width};
    if (!packed) return row_major(DType::f32, dims);
    return strided(DType::f32, dims, {count * heads * width, width, heads * width, 1});
  }
  Desc scores() const { return row_major(DType::f32, {batch, heads, queries, keys}); }
};

// The same bytes with the last two axes exchanged.
Operand transposed(Operand operand) {
  Dims dims = operand.wanted.get_dims(), strides = operand.wanted.get_strides();
  std::swap(dims[2], dims[3]);
  std::swap(strides[2], strides[3]);
  operand.plain = operand.wanted = strided(DType::f32, dims, strides);
  return operand;
}

class OnednnAttention final : public OnednnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    const Attributes& a = setup.node.attributes;
    for (const size_t i : {0, 1, 2})
      if (setup.inputs[i].dtype != DType::f32) return "its kernel computes in f32";
    if (given(setup.inputs, 3)) return "its kernel has no mask but causality";
    if (given(setup.inputs, 4) || given(setup.inputs, 5)) return "its kernel has no past keys and values";
    if (given(setup.inputs, 6)) return "its kernel sees all keys of a sample";
    if (given(setup.outputs, 1) || given(setup.outputs, 2)) return "its kernel has no present keys and values";
    if (given(setup.outputs, 3)) return "its kernel does not tell its scores";
    if (a.real("softcap", 0) != 0) return "its kernel has no soft cap";
    if (a.integer("left_window_size", -1) != -1 || a.integer("right_window_size", -1) != -1)
      return "its kernel has no windows";
    const bool packed = setup.inputs[0].shape.rank() == 3;
    const Index q = packed ? a.integer("q_num_heads", 0) : setup.inputs[0].shape[1];
    const Index kv = packed ? a.integer("kv_num_heads", 0) : setup.inputs[1].shape[1];
    if (q != kv) return "its kernel has a head of keys for each head of queries";
    return {};
  }

  void build(Program& p, const KernelSetup& setup) const override {
    const AttentionDims d(setup);
    const double given_scale = setup.node.attributes.real("scale", 0);
    const double scale = given_scale != 0 ? given_scale : 1 / std::sqrt(static_cast<double>(d.size));
    const Operand q = input(0, d.rows(d.queries, d.size)), k = input(1, d.rows(d.keys, d.size)),
                  v = input(2, d.rows(d.keys, d.v_size)), y = output(0, d.rows(d.queries, d.v_size));
    const bool gradients = setup.wants_gradient[0] || setup.wants_gradient[1] || setup.wants_gradient[2];
    const Operand weights = gradients ? p.workspace(d.scores()) : p.temporary(Pass::forward, d.scores());

    add_scores(p, setup, q, k, weights, scale);
    const auto kind = setup.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const dnnl::softmax_forward::primitive_desc softmax(engine(), kind, dnnl::algorithm::softmax_accurate, d.scores(),
                                                        d.scores(), 3, p.attributes());
    p.add(Pass::forward, softmax, {reads(DNNL_ARG_SRC, weights), writes(DNNL_ARG_DST, weights)});
    add_product(p, Pass::forward, weights, v, y);
    if (!gradients) return;

    const Operand dy = output_gradient(0, d.rows(d.queries, d.v_size));
    if (setup.wants_gradient[2])
      add_product(p, Pass::backward, transposed(weights), dy, input_gradient(2, d.rows(d.keys, d.v_size)));
    if (!setup.wants_gradient[0] && !setup.wants_gradient[1]) return;
    const Operand slopes = p.temporary(Pass::backward, d.scores());
    add_product(p, Pass::backward, dy, transposed(v), slopes);
    const dnnl::softmax_backward::primitive_desc backward(engine(), dnnl::algorithm::softmax_accurate, d.scores(),
                                                          d.scores(), d.scores(), 3, softmax, p.attributes());
    p.add(Pass::backward, backward,
          {reads(DNNL_ARG_DST, weights), reads(DNNL_ARG_DIFF_DST, slopes), writes(DNNL_ARG_DIFF_SRC, slopes)});
    if (setup.wants_gradient[0])
      add_product(p, Pass::backward, slopes, k, input_gradient(0, d.rows(d.queries, d.size)), scale);
    if (setup.wants_gradient[1])
      add_product(p, Pass::backward, transposed(slopes), q, input_gradient(1, d.rows(d.keys, d.size)), scale);
  }

 private:
  static void add_scores(Program& p, const KernelSetup& setup, const Operand& q, const Operand& k,
                         const Operand& scores, double scale) {
    dnnl::primitive_attr attributes = p.attributes();
    dnnl::post_ops after;
    after.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(scale), 0);
    const Operand keys = transposed(k);
    attributes.set_post_ops(after);
    const dnnl::matmul::primitive_desc product(engine(), q.wanted, keys.wanted, scores.wanted, attributes);
    p.add(Pass::forward, product,
          {reads(DNNL_ARG_SRC, q), reads(DNNL_ARG_WEIGHTS, keys), writes(DNNL_ARG_DST, scores)});
    if (setup.node.attributes.flag("is_causal", false)) add_mask(p, AttentionDims(setup), scores);
  }

  // A step of its own: a product that adds it has only a reference kernel, 100 times slower.
  static void add_mask(Program& p, const AttentionDims& d, const Operand& scores) {
    const Tensor hidden(DType::f32, {1, d.queries * d.keys});
    for (Index i = 0; i < d.queries; ++i)
      for (Index j = 0; j < d.keys; ++j)
        hidden.values<float>()[static_cast<size_t>(i * d.keys + j)] =
            j <= i ? 0 : -std::numeric_limits<float>::infinity();
    const Operand mask = p.constant(hidden);
    Operand all = scores;
    all.plain = all.wanted = row_major(DType::f32, {d.batch * d.heads, d.queries * d.keys});
    const dnnl::binary::primitive_desc sum(engine(), dnnl::algorithm::binary_add, all.wanted, mask.wanted, all.wanted,
                                           p.attributes());
    p.add(Pass::forward, sum, {reads(DNNL_ARG_SRC_0, all), reads(DNNL_ARG_SRC_1, mask), writes(DNNL_ARG_DST, all)});
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Attention", "onednn", OnednnAttention);
}  // namespace d5::onednn
