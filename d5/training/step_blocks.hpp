// SPDX-License-Identifier: Apache-2.0
// Seconds of steps as means of consecutive ones: at most 512 numbers however long a training is. When they are full,
// neighbours are joined.
#pragma once

#include <vector>

#include "d5/core/shape.hpp"

namespace d5 {

class StepBlocks {
 public:
  // `blocks` hold `size` steps each; both grow.
  void add(double seconds, std::vector<double>& blocks, Index& size) {
    sum_ += seconds;
    if (++steps_ < size) return;
    blocks.push_back(sum_ / static_cast<double>(steps_));
    sum_ = 0;
    steps_ = 0;
    if (blocks.size() < most) return;
    for (size_t i = 0; i < most / 2; ++i) blocks[i] = (blocks[2 * i] + blocks[2 * i + 1]) / 2;
    blocks.resize(most / 2);
    size *= 2;
  }

 private:
  static constexpr size_t most = 512;
  double sum_ = 0;
  Index steps_ = 0;
};

}  // namespace d5
