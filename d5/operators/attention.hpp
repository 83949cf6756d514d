// SPDX-License-Identifier: Apache-2.0
// One head of scaled dot-product attention, row by row: what Attention's values and its error bounds share.
#pragma once

#include <vector>

#include "d5/operators/operator.hpp"

namespace d5 {

struct AttentionSizes {
  Index batch, heads, kv_heads, queries, keys, past, size, v_size;  // keys: with those of the past
  bool packed;                                                      // 3 axes: heads lie within the last one
  Index group() const { return heads / kv_heads; }

  // Where row `l` of a head begins in Q, K, V or Y: `all` heads of `length` rows of `width`.
  Index row(Index b, Index head, Index l, Index all, Index length, Index width) const {
    return packed ? ((b * length + l) * all + head) * width : ((b * all + head) * length + l) * width;
  }
  Index q(Index b, Index head, Index l) const { return row(b, head, l, heads, queries, size); }
  Index y(Index b, Index head, Index l) const { return row(b, head, l, heads, queries, v_size); }
};

struct AttentionOptions {
  double scale = 0, softcap = 0;  // 0: 1 / sqrt(size); no cap
  bool causal = false;
  Index left = -1, right = -1;  // window around a query's position; -1: unbounded
};

// The keys and values that one sample's head sees, and one query's weights for them.
class AttentionHead {
 public:
  AttentionHead(const Context&, const AttentionSizes&, const AttentionOptions&, Index b, Index head);

  const double* key(Index j) const { return keys_.data() + j * s_.size; }
  const double* value(Index j) const { return values_.data() + j * s_.v_size; }
  double scale() const { return scale_; }

  struct Row {
    const double* q;
    std::vector<double> p;      // softmax; zero where masked, all zero where everything is
    std::vector<double> slope;  // of the soft cap
    std::vector<double> score;  // after the cap, without the mask
    std::vector<double> bias;   // of the mask; -infinity: not seen
    double top = 0;             // the largest score + bias
  };
  Row row(Index query) const;
  // What ONNX's qk_matmul_output_mode stands for: 0 the scaled products of all keys, 1 those capped, 2 with the mask, 3
  // p.
  std::vector<double> scores(Index query, const Row&, Index mode) const;
  // Where the mask holds its value for this query and key, or -1.
  Index mask_at(Index query, Index key) const;

 private:
  double bias(Index query, Index key) const;
  const Context& c_;
  const AttentionSizes& s_;
  const AttentionOptions& o_;
  Index b_, head_, offset_, seen_;
  double scale_;
  std::vector<double> keys_, values_;
};

// The bounds of Attention's results: see attention_errors.cpp.
Tensor attention_errors(const Context&, const AttentionSizes&, const AttentionOptions&, Pass, size_t index,
                        bool stored);

}  // namespace d5
