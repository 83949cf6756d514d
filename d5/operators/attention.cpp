// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention with heads (Vaswani et al., 2017; ONNX Attention, opset 25). Heads of Q share heads of K
// and V in groups; past keys and values stand before the new ones. For one head and query i:
//   s_j = cap(scale q_i k_j) + mask_ij      p = softmax(s)      y_i = sum_j p_j v_j      cap(x) = softcap tanh(x /
//   softcap) dp_j = dy_i v_j      ds_j = p_j (dp_j - sum_l p_l dp_l)      dt_j = ds_j cap'      dmask_ij = ds_j dq_i =
//   scale sum_j dt_j k_j      dk_j = scale sum_i dt_ij q_i      dv_j = sum_i p_ij dy_i
// A fourth output, qk_matmul_output, holds what qk_matmul_output_mode says: 0 the scaled products, 1 those capped, 2 s,
// 3 p; it has no gradient.
// Keys that a mask, causality, a window or nonpad_kv_seqlen hides have p = 0; a query that sees no key gives y = 0.
#include "d5/operators/attention.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "d5/core/parallel.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/magnitude.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[attention]";
constexpr const char* names[] = {"Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"};

class Attention final : public Operator {
 public:
  explicit Attention(const Attributes& a)
      : options_{.scale = a.real("scale", 0),
                 .softcap = a.real("softcap", 0),
                 .causal = a.flag("is_causal", false),
                 .left = a.integer("left_window_size", -1),
                 .right = a.integer("right_window_size", -1)},
        heads_(a.integer("q_num_heads", 0)),
        kv_heads_(a.integer("kv_num_heads", 0)),
        scores_(a.integer("qk_matmul_output_mode", 0)) {
    check_attributes(a,
                     {"is_causal", "kv_num_heads", "left_window_size", "q_num_heads", "qk_matmul_output_mode",
                      "right_window_size", "scale", "softcap", "softmax_precision"},
                     place);
    if (scores_ < 0 || scores_ > 3)
      throw UsageError("{} qk_matmul_output_mode is {}; legal: 0, 1, 2, 3", place, scores_);
    if (options_.left < -1 || options_.right < -1)
      throw Error("{} windows are {} and {}; -1 (unbounded) and sizes from 0 are legal", place, options_.left,
                  options_.right);
    if (options_.softcap < 0) throw Error("{} softcap is {}; 0 (none) or more is legal", place, options_.softcap);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 3, 7, place);
    for (const size_t i : {0, 1, 2}) {
      check_type(in[i], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
      if (in[i].shape.rank() != in[0].shape.rank() || (in[i].shape.rank() != 3 && in[i].shape.rank() != 4))
        throw Error("{} Q is {} and {} is {}: all three with 3 axes, or with 4, are wanted", place,
                    to_string(in[0].shape), names[i], to_string(in[i].shape));
    }
    const AttentionSizes s = sizes(in);
    const auto check = [&](size_t i, const Shape& wanted, DType type) {
      if (!has(in, i)) return;
      if (in[i].shape != wanted)
        throw Error("{} {} is {}; {} is wanted for Q {}, {} heads for {}", place, names[i], to_string(in[i].shape),
                    to_string(wanted), to_string(in[0].shape), s.kv_heads, s.heads);
      if (in[i].dtype != type)
        throw Error("{} {} is of type {}; {} is wanted", place, names[i], name(in[i].dtype), name(type));
    };
    const auto rows = [&](Index heads, Index length, Index width) {
      return s.packed ? Shape{s.batch, length, heads * width} : Shape{s.batch, heads, length, width};
    };
    const Index fresh = s.keys - s.past;
    check(0, rows(s.heads, s.queries, s.size), in[0].dtype);
    check(1, rows(s.kv_heads, fresh, s.size), in[0].dtype);
    check(2, rows(s.kv_heads, fresh, s.v_size), in[2].dtype);
    if (has(in, 4) != has(in, 5))
      throw Error("{} {} is there without {}", place, names[has(in, 4) ? 4 : 5], names[has(in, 4) ? 5 : 4]);
    check(4, {s.batch, s.kv_heads, s.past, s.size}, in[0].dtype);
    check(5, {s.batch, s.kv_heads, s.past, s.v_size}, in[2].dtype);
    if (has(in, 6) && has(in, 4)) throw Error("{} past_key and nonpad_kv_seqlen exclude each other", place);
    check(6, {s.batch}, DType::i64);
    check_mask(in, s);
    return {output_spec(in[0].dtype, rows(s.heads, s.queries, s.v_size).sizes(), place),
            output_spec(in[1].dtype, {s.batch, s.kv_heads, s.keys, s.size}, place),
            output_spec(in[2].dtype, {s.batch, s.kv_heads, s.keys, s.v_size}, place),
            output_spec(in[0].dtype, {s.batch, s.heads, s.queries, s.keys}, place)};
  }

  void forward(Context& c) const override {
    const AttentionSizes s = sizes(c);
    parallel_for(s.batch * s.heads, 1, [&](Index first, Index last) {
      for (Index one = first; one < last; ++one) {
        const Index b = one / s.heads, head = one % s.heads;
        const AttentionHead h(c, s, options_, b, head);
        for (Index i = 0; i < s.queries; ++i) {
          const auto row = h.row(i);
          double* y = c.output(0).values<double>().data() + s.y(b, head, i);
          std::fill_n(y, s.v_size, 0.0);
          for (Index j = 0; j < s.keys; ++j)
            for (Index d = 0; d < s.v_size && row.p[j] != 0; ++d) y[d] += row.p[j] * h.value(j)[d];
          if (c.output(3).present()) {
            const auto scores = h.scores(i, row, scores_);
            std::ranges::copy(scores, c.output(3).values<double>().data() + (one * s.queries + i) * s.keys);
          }
        }
        if (head % s.group() != 0) continue;
        const Index at = (b * s.kv_heads + head / s.group()) * s.keys;
        if (c.output(1).present())
          std::copy_n(h.key(0), s.keys * s.size, c.output(1).values<double>().data() + at * s.size);
        if (c.output(2).present())
          std::copy_n(h.value(0), s.keys * s.v_size, c.output(2).values<double>().data() + at * s.v_size);
      }
    });
  }

  void backward(Context& c) const override {
    const AttentionSizes s = sizes(c);
    for (const size_t i : {0, 3})
      if (c.input_gradient(i).present()) cleared(c.input_gradient(i));
    // A broadcast mask sums over all samples and heads: then one thread does them all.
    const Index grain = c.input_gradient(3).present() ? s.batch * s.kv_heads : 1;
    parallel_for(s.batch * s.kv_heads, grain, [&](Index first, Index last) {
      for (Index one = first; one < last; ++one) backward_group(c, s, one / s.kv_heads, one % s.kv_heads);
    });
  }

  std::optional<Batch> batch(SpecSpan in) const override {
    Batch axes{.inputs = {0, 0, 0, -1, 0, 0, 0}, .outputs = {0, 0, 0, 0}};
    if (has(in, 3) && in[3].shape.rank() == 4 && in[3].shape[0] != 1) axes.inputs[3] = 0;
    axes.inputs.resize(in.size());
    return axes;
  }

  // Both products, over the keys that causality leaves (half of a square), and a softmax of 5 operations. Backward: the
  // scores again, four more products.
  Cost cost(SpecSpan in, Pass pass) const override {
    const AttentionSizes s = sizes(in);
    double pairs = 0;
    for (Index i = 0; i < s.queries; ++i)
      pairs += static_cast<double>(options_.causal ? std::min(s.keys, i + s.past + 1) : s.keys);
    pairs *= static_cast<double>(s.batch) * static_cast<double>(s.heads);
    const auto size = static_cast<double>(s.size), v_size = static_cast<double>(s.v_size);
    const double y = infer(in)[0].bytes(), keys = input_bytes(in);
    if (pass == Pass::forward) return {pairs * (2 * size + 2 * v_size + 5), keys + y};
    return {pairs * (6 * size + 4 * v_size + 9), 2 * keys + 2 * y};
  }

  // Units: the scale, the exponential, the division, a rescaling where keys come in blocks.
  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    const AttentionSizes s = sizes(in);
    const Index backward = pass == Pass::forward ? 0 : s.v_size + s.queries * s.heads * s.batch;
    return {.terms = static_cast<double>(s.size + s.keys + backward), .units = 8};
  }

  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    if (pass == Pass::forward && index == 3) return size_of_products(c);
    return attention_errors(c, sizes(c), options_, pass, index, false);
  }
  Tensor stored_magnitude(const Context& c, Pass pass, size_t index, DType) const override {
    return attention_errors(c, sizes(c), options_, pass, index, true);
  }

  static std::vector<Parameter> parameters() {
    return {{"batch", "samples", 8},
            {"heads", "heads of Q", 12},
            {"kv_heads", "heads of K and V; 0: as many as Q has", 0},
            {"queries", "rows of Q", 128},
            {"keys", "rows of K and V; 0: as many as Q has", 0},
            {"size", "size of a head", 64},
            {"v_size", "size of a head of V; 0: that of K", 0},
            {"packed", "three axes: heads lie within the last one", false},
            {"causal", "a query sees no later key", false},
            {"mask", "none, bool or float", "none"},
            {"mask_axes", "of the mask: N samples, H heads, Q queries, K keys, 1 the same for all of them", "QK"},
            {"mask_keys", "keys that the mask has, nobody sees further ones; 0: all", 0},
            {"past", "keys that stand before those of K", 0},
            {"padded", "samples have numbers of keys of their own (nonpad_kv_seqlen)", false},
            {"scale", "factor of the products; 0: 1 / sqrt(size)", 0.0},
            {"softcap", "soft cap of the scores; 0: none", 0.0},
            {"left_window", "keys seen before a query's own position; -1: all", -1},
            {"right_window", "keys seen after it; -1: all", -1}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const auto otherwise = [&](const char* name, Index value) {
      return v.integer(name, 0) == 0 ? value : v.integer(name, 0);
    };
    const Index n = v.integer("batch", 0), heads = v.integer("heads", 0), kv = otherwise("kv_heads", heads);
    const Index queries = v.integer("queries", 0), keys = otherwise("keys", queries), past = v.integer("past", 0);
    const Index size = v.integer("size", 0), v_size = otherwise("v_size", size);
    const bool packed = v.flag("packed", false);
    const auto rows = [&](Index h, Index length, Index width) -> OperatorInput {
      return {.spec = {type, packed ? Shape{n, length, h * width} : Shape{n, h, length, width}}};
    };
    const OperatorInput absent{.spec = TensorSpec::absent()};
    const std::string mask = v.text("mask", "none");
    if (mask != "none" && mask != "bool" && mask != "float")
      throw UsageError("{} mask is '{}'; legal: none, bool, float", place, mask);
    OperatorCase one;
    one.inputs = {
        rows(heads, queries, size), rows(kv, keys, size), rows(kv, keys, v_size), absent, absent, absent, absent};
    if (mask != "none") {
      std::vector<Index> axes;
      for (const char axis : v.text("mask_axes", "")) {
        const std::map<char, Index> sizes{
            {'N', n}, {'H', heads}, {'Q', queries}, {'K', otherwise("mask_keys", past + keys)}, {'1', 1}};
        if (!sizes.contains(axis)) throw UsageError("{} mask_axes has a '{}'; legal: N, H, Q, K, 1", place, axis);
        axes.push_back(sizes.at(axis));
      }
      one.inputs[3] = {.spec = {mask == "bool" ? DType::boolean : type, Shape(axes)},
                       .differentiable = mask == "float"};
    }
    if (past > 0) {
      one.inputs[4] = {.spec = {type, {n, kv, past, size}}};
      one.inputs[5] = {.spec = {type, {n, kv, past, v_size}}};
    }
    if (v.flag("padded", false))
      one.inputs[6] = {.spec = {DType::i64, {n}}, .low = 1, .high = static_cast<double>(keys), .differentiable = false};
    while (!one.inputs.back().spec.present) one.inputs.pop_back();
    one.attributes = {{"is_causal", int64_t{v.flag("causal", false)}},
                      {"left_window_size", v.integer("left_window", -1)},
                      {"right_window_size", v.integer("right_window", -1)},
                      {"softcap", v.real("softcap", 0)}};
    if (v.real("scale", 0) != 0) one.attributes.set("scale", v.real("scale", 0));
    if (packed) {
      one.attributes.set("q_num_heads", heads);
      one.attributes.set("kv_num_heads", kv);
    }
    one.outputs = one.differentiable_outputs = past > 0 ? 3 : 1;
    return one;
  }

  static std::vector<Attributes> cases() {
    return {
        {{"batch", 1}, {"heads", 1}, {"queries", 1}, {"size", 1}},
        {{"batch", 2}, {"heads", 2}, {"queries", 3}, {"keys", 5}, {"size", 4}, {"v_size", 3}},
        {{"batch", 2}, {"heads", 2}, {"queries", 4}, {"size", 3}, {"causal", true}, {"packed", true}},
        {{"batch", 1}, {"heads", 4}, {"kv_heads", 2}, {"queries", 3}, {"size", 5}, {"mask", "float"}},
        {{"batch", 2}, {"heads", 2}, {"kv_heads", 1}, {"queries", 5}, {"size", 2}, {"mask", "bool"}},
        {{"batch", 1}, {"heads", 2}, {"queries", 3}, {"size", 4}, {"past", 2}, {"causal", true}, {"packed", true}},
        {{"batch", 3}, {"heads", 1}, {"queries", 2}, {"keys", 6}, {"size", 3}, {"padded", true}},
        {{"batch", 1},
         {"heads", 2},
         {"queries", 6},
         {"size", 3},
         {"softcap", 0.5},
         {"scale", 2.0},
         {"left_window", 2},
         {"right_window", 1}},
        {{"batch", 1}, {"heads", 2}, {"queries", 64}, {"size", 32}, {"causal", true}},
        {{"batch", 2},
         {"heads", 2},
         {"queries", 5},
         {"size", 4},
         {"causal", true},
         {"mask", "float"},
         {"mask_axes", "NHQK"}},
        {{"batch", 2},
         {"heads", 4},
         {"kv_heads", 2},
         {"queries", 50},
         {"keys", 70},
         {"size", 20},
         {"v_size", 36},
         {"packed", true},
         {"mask", "bool"},
         {"mask_axes", "N11K"}},
        {{"batch", 2},
         {"heads", 6},
         {"kv_heads", 2},
         {"queries", 1},
         {"size", 8},
         {"past", 9},
         {"packed", true},
         {"mask", "float"},
         {"mask_axes", "H1K"}},
        // Queries that see nothing: where a sample has fewer keys than queries, and far behind the keys of the mask.
        {{"batch", 3}, {"heads", 1}, {"queries", 5}, {"size", 3}, {"padded", true}, {"causal", true}},
        {{"batch", 1},
         {"heads", 2},
         {"queries", 7},
         {"size", 4},
         {"left_window", 2},
         {"mask", "float"},
         {"mask_axes", "K"},
         {"mask_keys", 3}},
        {{"batch", 1},
         {"heads", 4},
         {"kv_heads", 1},
         {"queries", 20},
         {"size", 16},
         {"past", 30},
         {"causal", true},
         {"softcap", 2.0},
         {"left_window", 24},
         {"mask", "float"},
         {"mask_axes", "1HQK"}}};
  }

 private:
  AttentionSizes sizes(const Shape& q, const Shape& k, const Shape& v, Index past) const {
    const bool packed = q.rank() == 3;
    if (packed && (heads_ < 1 || kv_heads_ < 1))
      throw Error("{} Q is {}: with 3 axes q_num_heads and kv_num_heads are wanted", place, to_string(q));
    const Index heads = packed ? heads_ : q[1], kv = packed ? kv_heads_ : k[1];
    if (kv < 1 || heads % kv != 0)
      throw Error("{} {} heads of Q cannot share {} heads of K: the first must be a multiple of the second", place,
                  heads, kv);
    for (const auto& [shape, h] : {std::pair{q, heads}, {k, kv}, {v, kv}})
      if (packed && shape[2] % h != 0)
        throw Error("{} the last axis of {} does not hold {} heads of one size", place, to_string(shape), h);
    return {.batch = q[0],
            .heads = heads,
            .kv_heads = kv,
            .queries = q[packed ? 1 : 2],
            .keys = past + k[packed ? 1 : 2],
            .past = past,
            .size = packed ? q[2] / heads : q[3],
            .v_size = packed ? v[2] / kv : v[3],
            .packed = packed};
  }
  AttentionSizes sizes(SpecSpan in) const {
    return sizes(in[0].shape, in[1].shape, in[2].shape,
                 has(in, 4) && in[4].shape.rank() == 4 ? in[4].shape[2] : Index{0});
  }
  AttentionSizes sizes(const Context& c) const {
    return sizes(c.input(0).shape(), c.input(1).shape(), c.input(2).shape(),
                 c.input(4).present() ? c.input(4).shape()[2] : Index{0});
  }

  static void check_mask(SpecSpan in, const AttentionSizes& s) {
    if (!has(in, 3)) return;
    const Shape& mask = in[3].shape;
    if (in[3].dtype != DType::boolean && in[3].dtype != in[0].dtype)
      throw Error("{} attn_mask is of type {}; bool or {} is wanted", place, name(in[3].dtype), name(in[0].dtype));
    const Index whole[] = {s.batch, s.heads, s.queries};
    bool fits = mask.rank() >= 1 && mask.rank() <= 4 && mask.back() <= s.keys;
    for (size_t axis = 0; fits && axis + 1 < mask.rank(); ++axis)
      fits = mask[axis] == 1 || mask[axis] == whole[4 - mask.rank() + axis];
    if (!fits)
      throw Error("{} attn_mask is {}; it must broadcast to {}x{}x{}x{}, with at most that many keys", place,
                  to_string(mask), s.batch, s.heads, s.queries, s.keys);
  }

  void backward_group(const Context& c, const AttentionSizes& s, Index b, Index kv) const {
    std::vector<double> dk(static_cast<size_t>(s.keys * s.size), 0.0), dv(static_cast<size_t>(s.keys * s.v_size), 0.0);
    const Index at = (b * s.kv_heads + kv) * s.keys;
    if (c.output_gradient(1).present())
      std::copy_n(&c.output_gradient(1).values<double>()[at * s.size], dk.size(), dk.begin());
    if (c.output_gradient(2).present())
      std::copy_n(&c.output_gradient(2).values<double>()[at * s.v_size], dv.size(), dv.begin());
    for (Index head = kv * s.group(); c.output_gradient(0).present() && head < (kv + 1) * s.group(); ++head) {
      const AttentionHead h(c, s, options_, b, head);
      for (Index i = 0; i < s.queries; ++i) {
        const auto row = h.row(i);
        const double* dy = &c.output_gradient(0).values<double>()[s.y(b, head, i)];
        double* dq = c.input_gradient(0).present() ? &c.input_gradient(0).values<double>()[s.q(b, head, i)] : nullptr;
        std::vector<double> dp(static_cast<size_t>(s.keys), 0.0);
        double dot = 0;
        for (Index j = 0; j < s.keys; ++j) {
          for (Index d = 0; d < s.v_size; ++d) dp[j] += dy[d] * h.value(j)[d];
          dot += row.p[j] * dp[j];
        }
        for (Index j = 0; j < s.keys; ++j) {
          if (row.p[j] == 0) continue;
          const double ds = row.p[j] * (dp[j] - dot), dt = h.scale() * ds * row.slope[j];
          for (Index d = 0; d < s.size; ++d) {
            if (dq) dq[d] += dt * h.key(j)[d];
            dk[j * s.size + d] += dt * row.q[d];
          }
          for (Index d = 0; d < s.v_size; ++d) dv[j * s.v_size + d] += row.p[j] * dy[d];
          if (c.input_gradient(3).present()) c.input_gradient(3).values<double>()[h.mask_at(i, j)] += ds;
        }
      }
    }
    scatter(c, s, b, kv, 4, 1, s.size, dk);
    scatter(c, s, b, kv, 5, 2, s.v_size, dv);
  }

  // At least as large as any product of a query and a key, or their mask: what the fourth output errs by.
  Tensor size_of_products(const Context& c) const {
    const AttentionSizes s = sizes(c);
    double top[3] = {0, 0, 1};
    for (const size_t i : {0, 1, 4, 3}) {
      if (!c.input(i).present() || c.input(i).dtype() != DType::f64) continue;
      double& most = top[i == 0 ? 0 : i == 3 ? 2 : 1];
      for (const double value : c.input(i).values<double>())
        if (std::isfinite(value)) most = std::max(most, std::abs(value));
    }
    const Tensor scale(DType::f64, c.output(3).shape());
    const double factor = options_.scale != 0 ? std::abs(options_.scale) : 1 / std::sqrt(static_cast<double>(s.size));
    std::ranges::fill(scale.values<double>(), factor * static_cast<double>(s.size) * top[0] * top[1] + top[2]);
    return scale;
  }

  // Rows of the past go to the gradient of input `past`, the others to that of input `now`.
  static void scatter(const Context& c, const AttentionSizes& s, Index b, Index kv, size_t past, size_t now,
                      Index width, const std::vector<double>& rows) {
    for (Index l = 0; l < s.keys; ++l) {
      const Tensor& to = c.input_gradient(l < s.past ? past : now);
      if (!to.present()) continue;
      const Index at = l < s.past ? ((b * s.kv_heads + kv) * s.past + l) * width
                                  : s.row(b, kv, l - s.past, s.kv_heads, s.keys - s.past, width);
      std::copy_n(&rows[l * width], width, &to.values<double>()[at]);
    }
  }

  AttentionOptions options_;
  Index heads_, kv_heads_, scores_;
};

}  // namespace
D5_REGISTER(operators, "Attention", Attention);
}  // namespace d5
