// SPDX-License-Identifier: Apache-2.0
// What attention does with matrices that lie in the caches: products of a few rows, and scores. Compiled once for each
// instruction set, like the loops of loops.hpp.
#pragma once

#include "d5/backends/onednn/own/loops.hpp"

namespace d5::onednn::own {

// Element (i, k) lies at data[i * row + k * column].
struct LeftFactor {
  const float* data;
  int64_t row, column;
};

// The right factor of a product lies in panels of so many columns: element (k, c) at
// data[c / panel * stride + k * row + c % panel]. Its last vector of columns is there as a whole.
struct Panels {
  const float* data;
  int64_t stride, row;
};

// The keys that a query sees.
struct KeyRange {
  int64_t first = 0, last = 0;
  bool empty() const { return last <= first; }
  int64_t size() const { return last - first; }
};
// Scores of queries one behind the other: row i begins at data + i * stride, a multiple of a vector, and holds the keys
// `of`; vectors that hold one of them are there as a whole.
struct ScoreRows {
  float* data;
  int64_t stride, count;
  KeyRange of;
  const KeyRange* seen;  // by row, within those
};

struct AttentionLoops {
  int64_t panel, width, rows;  // columns of a panel, of a vector; rows that a product computes at once
  // The columns of a row-major matrix become panels, the last one with columns of 0.
  void (*pack)(float* to, int64_t stride, const float* from, int64_t from_stride, int64_t rows, int64_t columns);
  // y = a b, or y += a b: m x n sums of `depth` products. Rows of y have room for whole vectors.
  void (*product)(const LeftFactor& a, const Panels& b, float* y, int64_t y_stride, int64_t m, int64_t n, int64_t depth,
                  bool adds);
  // x = cap tanh(x / cap) + mask, x + mask where the cap is 0; a bool mask hides where it is false, data of null is no
  // mask. Gives the slope of the cap where it is wanted.
  void (*mask_scores)(float* x, const Values& mask, float cap, float* slope, int64_t n);
  // Scores become weights: softmax of what each row sees, 0 elsewhere; all 0 where everything is -infinity.
  void (*softmax)(const ScoreRows&);
  // Gradients of weights, which lie as the weights p do, become those of scores times `scale`.
  void (*softmax_gradient)(const ScoreRows&, const float* p, float scale);
};

const AttentionLoops& attention_loops();

// One table for each instruction set that loops/attention.cpp is compiled for.
namespace baseline {
extern const AttentionLoops attention_table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const AttentionLoops attention_table;
}
namespace avx512 {
extern const AttentionLoops attention_table;
}
#endif

}  // namespace d5::onednn::own
