// SPDX-License-Identifier: Apache-2.0
// What one Attention node says: where the rows of its heads lie, and which keys a query may see.
#pragma once

#include <algorithm>
#include <cmath>

#include "d5/backends/onednn/own/attention_loops.hpp"
#include "d5/backends/onednn/own/tensor_access.hpp"
#include "d5/operators/attention.hpp"

namespace d5::onednn::own {

struct AttentionView {
  enum Input : size_t { q, k, v, mask, past_key, past_value, key_counts };
  enum Output : size_t { y, present_key, present_value, shown };

  AttentionSizes s;
  float scale, cap;
  bool causal, counted, masked, shows;  // counted: samples have numbers of keys; shows: there is a fourth output
  Index left, right, mode;              // -1: no bound
  Index mask_sizes[3] = {1, 1, 1}, mask_strides[3] = {}, mask_keys;  // by sample, head and query

  AttentionView() = default;
  explicit AttentionView(const KernelSetup& setup) {
    const Attributes& a = setup.node.attributes;
    const auto has = [](const std::vector<TensorSpec>& specs, size_t i) {
      return i < specs.size() && specs[i].present;
    };
    const Shape &of_q = setup.inputs[q].shape, &of_k = setup.inputs[k].shape, &of_v = setup.inputs[v].shape;
    const bool packed = of_q.rank() == 3;
    const Index heads = packed ? a.integer("q_num_heads", 1) : of_q[1],
                kv_heads = packed ? a.integer("kv_num_heads", 1) : of_k[1],
                past = has(setup.inputs, past_key) ? setup.inputs[past_key].shape[2] : 0;
    s = {.batch = of_q[0],
         .heads = heads,
         .kv_heads = kv_heads,
         .queries = of_q[packed ? 1 : 2],
         .keys = past + of_k[packed ? 1 : 2],
         .past = past,
         .size = packed ? of_q[2] / heads : of_q[3],
         .v_size = packed ? of_v[2] / kv_heads : of_v[3],
         .packed = packed};
    const double given = a.real("scale", 0);
    scale = static_cast<float>(given != 0 ? given : 1 / std::sqrt(static_cast<double>(s.size)));
    cap = static_cast<float>(a.real("softcap", 0));
    causal = a.flag("is_causal", false);
    left = a.integer("left_window_size", -1);
    right = a.integer("right_window_size", -1);
    mode = a.integer("qk_matmul_output_mode", 0);
    counted = has(setup.inputs, key_counts);
    shows = has(setup.outputs, shown);
    masked = has(setup.inputs, mask);
    mask_keys = s.keys;
    if (!masked) return;
    const Shape& shape = setup.inputs[mask].shape;
    mask_keys = shape.back();
    Index stride = mask_keys;
    for (size_t axis = shape.rank() - 1; axis-- > 0; stride *= shape[axis]) {
      mask_sizes[4 - shape.rank() + axis] = shape[axis];
      if (shape[axis] > 1) mask_strides[4 - shape.rank() + axis] = stride;
    }
  }

  Index keys_of(const Buffers& b, Index sample) const {
    return counted ? static_cast<const int64_t*>(b.inputs[key_counts])[sample] : s.keys;
  }
  void check_counts(const Buffers& b) const {
    for (Index i = 0; counted && i < s.batch; ++i)
      if (const Index count = keys_of(b, i); count < 0 || count > s.keys)
        throw Error("[onednn] nonpad_kv_seqlen[{}] is {}; 0 to {} keys are there", i, count, s.keys);
  }
  KeyRange seen(const Buffers& b, Index sample, Index query) const {
    const Index count = keys_of(b, sample), position = query + (counted ? count - s.queries : s.past);
    KeyRange range{0, std::min(count, mask_keys)};
    if (causal) range.last = std::min(range.last, position + 1);
    if (right >= 0) range.last = std::min(range.last, position + right + 1);
    if (left >= 0) range.first = std::max<Index>(0, position - left);
    return range.empty() ? KeyRange{} : range;
  }
  Index mask_rows() const { return mask_sizes[0] * mask_sizes[1] * mask_sizes[2]; }
  Values mask_row(const Buffers& b, DType type, Index sample, Index head, Index query, Index key) const {
    if (!masked) return {nullptr};
    const Index at = sample * mask_strides[0] + head * mask_strides[1] + query * mask_strides[2] + key;
    return values_at(type, b.inputs[mask], at);
  }
};

}  // namespace d5::onednn::own
