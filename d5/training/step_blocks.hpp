// SPDX-License-Identifier: Apache-2.0
// Seconds and samples of steps as means of consecutive ones: at most 512 numbers each however long a training is. When
// they are full, neighbours are joined.
#pragma once

#include <vector>

#include "d5/core/shape.hpp"

namespace d5 {

struct StepMeans {
  std::vector<double> seconds, samples;  // of a step; samples of all ranks
  Index block = 1;                       // steps of each mean
};

class StepBlocks {
 public:
  void add(double seconds, double samples, StepMeans& means) {
    seconds_ += seconds;
    samples_ += samples;
    if (++steps_ < means.block) return;
    means.seconds.push_back(seconds_ / static_cast<double>(steps_));
    means.samples.push_back(samples_ / static_cast<double>(steps_));
    seconds_ = samples_ = 0;
    steps_ = 0;
    if (means.seconds.size() < most) return;
    for (std::vector<double>* all : {&means.seconds, &means.samples}) {
      for (size_t i = 0; i < most / 2; ++i) (*all)[i] = ((*all)[2 * i] + (*all)[2 * i + 1]) / 2;
      all->resize(most / 2);
    }
    means.block *= 2;
  }

 private:
  static constexpr size_t most = 512;
  double seconds_ = 0, samples_ = 0;
  Index steps_ = 0;
};

}  // namespace d5
