// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/torch/geometry.hpp"

#include <algorithm>

#include "d5/operators/window.hpp"

namespace d5::libtorch {

std::vector<int64_t> spatial_sizes(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

std::vector<int64_t> Geometry::all_pads() const {
  std::vector<int64_t> pads;
  for (size_t axis = kernel.size(); axis-- > 0;) {
    pads.push_back(begin[axis]);
    pads.push_back(end[axis]);
  }
  return pads;
}

Geometry window_geometry(const Setup& setup, std::vector<int64_t> kernel) {
  const std::vector<int64_t> input = spatial_sizes(setup.inputs[0].shape);
  const Window window(setup.attributes, input, kernel, "[torch]");
  Geometry g{.kernel = kernel};
  const size_t missing = 3 - kernel.size();
  for (size_t axis = 0; axis < kernel.size(); ++axis) {
    const size_t w = axis + missing;
    g.stride.push_back(window.stride[w]);
    g.dilation.push_back(window.dilation[w]);
    g.begin.push_back(window.pad[w]);
    g.output.push_back(window.output[w]);
    const int64_t reach = (window.output[w] - 1) * window.stride[w] + (kernel[axis] - 1) * window.dilation[w] + 1;
    g.end.push_back(std::max<int64_t>(0, reach - input[axis] - window.pad[w]));
  }
  // The library's own rule, with the padding of the beginning on both sides, must give the same outputs.
  for (size_t axis = 0; axis < kernel.size(); ++axis) {
    const int64_t room = input[axis] + 2 * g.begin[axis] - ((kernel[axis] - 1) * g.dilation[axis] + 1);
    if (room < 0 || room / g.stride[axis] + 1 != g.output[axis]) g.symmetric = false;
  }
  return g;
}

}  // namespace d5::libtorch
