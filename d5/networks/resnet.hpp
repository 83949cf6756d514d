// SPDX-License-Identifier: Apache-2.0
// The stages of a residual network for large images, which DeepLab reads, too.
#pragma once

#include <array>
#include <string>

#include "d5/networks/builder.hpp"

namespace d5 {

struct ResNetShape {
  std::array<int, 4> blocks;
  bool bottleneck = true;
  Index width = 64;              // maps of the first stage
  bool stride_in_first = false;  // of a bottleneck: the paper's 1x1 strides, not the 3x3
  // Stages from this one on (counted from 1) keep the image's size and spread their taps instead.
  int first_dilated = 5;
};

// What each of the four stages makes of the image: a quarter of its size, an eighth, ...
std::array<Edge, 4> resnet_stages(Builder&, const Edge& image, const ResNetShape&);

}  // namespace d5
