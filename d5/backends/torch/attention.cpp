// SPDX-License-Identifier: Apache-2.0
// Attention by torch's scaled_dot_product_attention, which chooses among its kernels (flash, memory-efficient, math).
// Causality beyond the plain square, windows and numbers of keys become masks.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "d5/backends/torch/library.hpp"
#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {
namespace {

enum Input : size_t { q, k, v, mask, past_key, past_value, key_counts };

Prepared attention(const Setup& setup) {
  const Attributes& a = setup.attributes;
  if (a.real("softcap", 0) != 0) return refuse("torch's attention has no soft cap");
  if (setup.wants(3)) return refuse("torch's attention does not tell its scores");
  if (setup.dtype(v) != setup.dtype(q)) return refuse("torch wants one type for Q, K and V");
  const bool packed = setup.rank(q) == 3, counted = setup.has(key_counts), past = setup.has(past_key);
  const int64_t heads = packed ? a.integer("q_num_heads", 1) : setup.inputs[q].shape[1],
                kv_heads = packed ? a.integer("kv_num_heads", 1) : setup.inputs[k].shape[1];
  const int64_t queries = setup.inputs[q].shape[packed ? 1 : 2], old = past ? setup.inputs[past_key].shape[2] : 0,
                keys = old + setup.inputs[k].shape[packed ? 1 : 2];
  const int64_t left = a.integer("left_window_size", -1), right = a.integer("right_window_size", -1);
  const bool causal = a.flag("is_causal", false), windows = left >= 0 || right >= 0;
  if (counted && (causal || windows)) return refuse("with nonpad_kv_seqlen torch has no causality of its own");
  if (setup.has(mask) && setup.inputs[mask].shape.back() != keys)
    return refuse("attn_mask has fewer keys than there are; torch wants all of them");
  const std::optional<double> scale = a.has("scale") ? std::optional(a.real("scale", 0)) : std::nullopt;

  // The part of the mask that is known: query i stands at position i + old.
  const bool square = causal && !windows && queries == keys && !setup.has(mask);
  at::Tensor allowed;
  if ((causal && !square) || windows) {
    const auto options = at::dtype(at::kLong).device(setup.device);
    const at::Tensor position = at::arange(queries, options).add(old).unsqueeze(1), key = at::arange(keys, options);
    allowed = at::ones({queries, keys}, at::dtype(at::kBool).device(setup.device));
    if (causal) allowed = allowed.logical_and(key.le(position));
    if (left >= 0) allowed = allowed.logical_and(key.ge(position.sub(left)));
    if (right >= 0) allowed = allowed.logical_and(key.le(position.add(right)));
  }
  const at::Tensor numbers = at::arange(keys, at::dtype(at::kLong).device(setup.device));
  const bool floats = setup.has(mask) && is_float(setup.dtype(mask));
  const auto rows = [packed](const at::Tensor& t, int64_t count) {
    return packed ? t.unflatten(2, {count, t.size(2) / count}).transpose(1, 2) : t;
  };
  return Prepared{[=](Inputs in, Outputs out) {
                    at::Tensor key = rows(in[k], kv_heads), value = rows(in[v], kv_heads);
                    if (past) {
                      key = at::cat({in[past_key], key}, 2);
                      value = at::cat({in[past_value], value}, 2);
                    }
                    at::Tensor seen = allowed;
                    if (counted) seen = numbers.lt(in[key_counts].view({-1, 1, 1, 1}));
                    std::optional<at::Tensor> bias;
                    if (mask < in.size() && in[mask].defined()) {
                      bias = in[mask];
                      if (seen.defined())
                        bias = floats ? at::where(seen, in[mask], -std::numeric_limits<double>::infinity())
                                      : in[mask].logical_and(seen);
                    } else if (seen.defined()) {
                      bias = seen;
                    }
                    const at::Tensor y = at::scaled_dot_product_attention(rows(in[q], heads), key, value, bias, 0.0,
                                                                          square, scale, heads != kv_heads);
                    out[0] = packed ? y.transpose(1, 2).flatten(2) : y;
                    if (out.size() > 1) out[1] = key;
                    if (out.size() > 2) out[2] = value;
                  },
                  "aten::scaled_dot_product_attention"}
      .rounds_between();
}

}  // namespace
D5_TORCH_OPERATOR("Attention", attention);
}  // namespace d5::libtorch
