// SPDX-License-Identifier: Apache-2.0
// ONNX's windows in ATen's terms. ATen pads both sides of an axis alike; where ONNX does not, the input is padded
// first.
#pragma once

#include <vector>

#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {

struct Geometry {
  std::vector<int64_t> kernel, stride, dilation, begin, end;  // by spatial axis
  std::vector<int64_t> output;
  bool symmetric = true;
  std::vector<int64_t> all_pads() const;  // as constant_pad_nd wants them: the last axis first
};

std::vector<int64_t> spatial_sizes(const Shape&);  // without the first two axes
// From strides, dilations, pads and auto_pad of the node. `end` reaches as far as the last output reads, so that
// ceil_mode is padding like any other.
Geometry window_geometry(const Setup&, std::vector<int64_t> kernel);

}  // namespace d5::libtorch
