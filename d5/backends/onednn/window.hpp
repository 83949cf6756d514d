// SPDX-License-Identifier: Apache-2.0
// The geometry of convolutions and pools as oneDNN wants it: axes that exist, dilation counted from 0.
#pragma once

#include "d5/backends/onednn/layout.hpp"
#include "d5/operators/window.hpp"

namespace d5::onednn {

struct WindowDims {
  Dims kernel, strides, dilations, pads_before, pads_after;

  WindowDims(const Window& w, size_t axes) {
    for (size_t i = 3 - axes; i < 3; ++i) {
      kernel.push_back(w.kernel[i]);
      strides.push_back(w.stride[i]);
      dilations.push_back(w.dilation[i] - 1);
      pads_before.push_back(w.pad[i]);
      // What the last output reads beyond the input; less than the attribute says where the last stride does not fit.
      pads_after.push_back((w.output[i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1 - w.input[i] -
                           w.pad[i]);
    }
  }
};

inline std::vector<Index> spatial_sizes(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

}  // namespace d5::onednn
