// SPDX-License-Identifier: Apache-2.0
// Loops over channels last: rows of numbers side by side, one for each channel, with parameters that belong to the
// channels. Compiled once for each instruction set, like the loops of loops.hpp.
#pragma once

#include <cstdint>

namespace d5::onednn::own {

// `rows` rows that begin `stride` numbers apart, n of each: a block of at most `most_channels` channels.
struct ChannelRows {
  int64_t rows, stride, n;
};

struct ChannelLoops {
  static constexpr int64_t most_channels = 64;
  static constexpr int64_t most_summands = 4;

  // sums += x - origin, squares += (x - origin)^2, over the rows
  void (*moments)(ChannelRows, const float* x, const float* origin, float* sums, float* squares);
  // y = (x - mean) factor + shift, plus `more` where it is not null, rectified where relu
  void (*normalize)(ChannelRows, float* y, const float* x, const float* more, const float* mean, const float* factor,
                    const float* shift, bool relu);

  // Gradients. g is the sum of `count` tensors dy; where relu and not `sign`, 0 where (x - mean) factor + shift <= 0;
  // where `sign` is given, 0 where it is <= 0. It is stored where `g` is given.
  struct Slopes {
    const float* dy[most_summands];
    int64_t count;
    const float* sign;
    bool relu;
    float* g;
    const float *x, *mean, *factor, *shift;
  };
  // sums += g, products += g (x - mean)
  void (*gradient_sums)(ChannelRows, const Slopes&, float* sums, float* products);
  // dx = factor (g - a - (x - mean) b)
  void (*gradient)(ChannelRows, const Slopes&, float* dx, const float* a, const float* b);
};

}  // namespace d5::onednn::own
