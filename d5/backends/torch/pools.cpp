// SPDX-License-Identifier: Apache-2.0
// Pools.
#include <ATen/core/Tensor.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_max_pool1d.h>
#include <ATen/ops/adaptive_max_pool2d.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/max_pool3d_with_indices.h>
#include <ATen/ops/mean.h>

#include <algorithm>
#include <limits>

#include "d5/backends/torch/geometry.hpp"
#include "d5/backends/torch/library.hpp"
#include "d5/operators/window.hpp"

namespace d5::libtorch {
namespace {

constexpr const char* narrow_gradient = "its gradient adds in the type of the tensors where windows overlap";

// Padding is -infinity here too, but ATen allows at most half a window of it, on both sides alike. One axis is two, the
// first of size 1: the function for one axis gives no indices.
Prepared max_pool(const Setup& setup) {
  const Geometry g = window_geometry(setup, setup.attributes.integers("kernel_shape"));
  if (!is_float(setup.dtype())) return refuse("torch pools floats, not {}", name(setup.dtype()));
  if (setup.wants(1) && setup.attributes.flag("storage_order", false))
    return refuse("torch counts indices row by row, not column by column");
  bool fits = g.symmetric;
  for (size_t i = 0; i < g.kernel.size(); ++i) fits = fits && 2 * g.begin[i] <= g.kernel[i];
  if (setup.wants(1) && !fits) return refuse("torch's indices would count the padding that ONNX has here");
  const bool line = g.kernel.size() == 1, volume = g.kernel.size() == 3;
  const auto two = [&](const std::vector<int64_t>& one, int64_t first) {
    return line ? std::vector<int64_t>{first, one[0]} : one;
  };
  const auto kernel = two(g.kernel, 1), stride = two(g.stride, 1), dilation = two(g.dilation, 1);
  const auto pad = fits ? two(g.begin, 0) : std::vector<int64_t>(kernel.size(), 0);
  const auto prepared = [=](const at::Tensor& input) {
    const at::Tensor x =
        fits ? input : at::constant_pad_nd(input, g.all_pads(), -std::numeric_limits<double>::infinity());
    return line ? x.unsqueeze(2) : x;
  };
  const auto finished = [line](const at::Tensor& y) { return line ? y.squeeze(2) : y; };
  const std::string function =
      std::string(fits ? "" : "aten::constant_pad_nd, ") + (volume ? "aten::max_pool3d" : "aten::max_pool2d");
  if (!setup.wants(1))
    return {[=](Inputs in, Outputs out) {
              const at::Tensor x = prepared(in[0]);
              out[0] = finished(volume ? at::max_pool3d(x, kernel, stride, pad, dilation)
                                       : at::max_pool2d(x, kernel, stride, pad, dilation));
            },
            function,
            true,
            "",
            "",
            narrow_gradient};
  // ATen counts within a plane, ONNX in the whole of X.
  const Shape& x = setup.inputs[0].shape;
  const int64_t planes = x[0] * x[1], plane = x.elements() / std::max<int64_t>(planes, 1);
  std::vector<int64_t> sizes(x.rank(), 1);
  sizes[0] = x[0];
  sizes[1] = x[1];
  const at::Tensor offset = at::arange(planes, at::dtype(at::kLong).device(setup.device)).mul(plane).view(sizes);
  return {[=](Inputs in, Outputs out) {
            const at::Tensor x = prepared(in[0]);
            auto [y, at] = volume ? at::max_pool3d_with_indices(x, kernel, stride, pad, dilation)
                                  : at::max_pool2d_with_indices(x, kernel, stride, pad, dilation);
            out[0] = finished(y);
            out[1] = finished(at).add(offset);
          },
          function + "_with_indices",
          true,
          "",
          "",
          narrow_gradient};
}

// Where torch's own rule counts as ONNX does it is taken as it is; elsewhere (other padding at the end than at the
// beginning, ceil_mode) the padded input is summed and divided by the counts.
Prepared average_pool(const Setup& setup) {
  const std::vector<int64_t> window = setup.attributes.integers("kernel_shape");
  const Geometry g = window_geometry(setup, window);
  for (const int64_t dilation : g.dilation)
    if (dilation != 1) return refuse("torch's mean over a window has no dilation");
  const bool include = setup.attributes.flag("count_include_pad", false);
  const bool line = g.kernel.size() == 1, volume = g.kernel.size() == 3;
  const auto two = [&](const std::vector<int64_t>& one, int64_t first) {
    return line ? std::vector<int64_t>{first, one[0]} : one;
  };
  const auto kernel = two(g.kernel, 1), stride = two(g.stride, 1);
  bool fits = g.symmetric;
  for (size_t i = 0; i < g.kernel.size(); ++i) fits = fits && 2 * g.begin[i] <= g.kernel[i];
  if (fits) {
    const auto pad = two(g.begin, 0);
    // Torch's gradient on CUDA looks for the windows over an element as if there were no padding, with channels last
    // alone (avg_pool2d_backward_out_cuda_frame_nhwc, as of 2.11). So it gets rows.
    const bool rows = setup.device.is_cuda() && setup.options.mode == Mode::training && !volume &&
                      std::ranges::any_of(pad, [](int64_t p) { return p > 0; });
    return {[=](Inputs in, Outputs out) {
              const at::Tensor given = rows ? in[0].contiguous() : in[0], x = line ? given.unsqueeze(2) : given;
              const at::Tensor y = volume ? at::avg_pool3d(x, kernel, stride, pad, false, include)
                                          : at::avg_pool2d(x, kernel, stride, pad, false, include);
              out[0] = line ? y.squeeze(2) : y;
            },
            volume ? "aten::avg_pool3d" : "aten::avg_pool2d",
            !rows,
            "",
            "",
            narrow_gradient};
  }
  const Window counted(setup.attributes, spatial_sizes(setup.inputs[0].shape), window, "[torch]");
  std::vector<float> counts(static_cast<size_t>(counted.output_elements()));
  for (size_t o = 0; o < counts.size(); ++o) {
    const auto output = static_cast<Index>(o);
    if (include)
      counts[o] = static_cast<float>(counted.padded_taps(output));
    else
      counted.for_each_tap(output, [&](Index, Index) { counts[o] += 1; });
  }
  std::vector<Index> sizes{1, 1};
  sizes.insert(sizes.end(), g.output.begin(), g.output.end());
  const at::Tensor divisor =
      wrap(Tensor::from<float>(Shape(sizes), counts)).to(setup.device, scalar_type(setup.dtype()), false, true);
  return Prepared{[=](Inputs in, Outputs out) {
                    const at::Tensor padded = at::constant_pad_nd(in[0], g.all_pads());
                    const at::Tensor x = line ? padded.unsqueeze(2) : padded;
                    const at::Tensor y = volume ? at::avg_pool3d(x, kernel, stride, 0, false, true, 1)
                                                : at::avg_pool2d(x, kernel, stride, 0, false, true, 1);
                    out[0] = (line ? y.squeeze(2) : y).div(divisor);
                  },
                  volume ? "aten::constant_pad_nd, avg_pool3d, div" : "aten::constant_pad_nd, avg_pool2d, div", true}
      .rounds_between();
}

Prepared global_average_pool(const Setup& setup) {
  if (setup.rank() == 4)
    return {[](Inputs in, Outputs out) {
              out[0] = at::adaptive_avg_pool2d(in[0], {1, 1});
            },
            "aten::adaptive_avg_pool2d", true};
  std::vector<int64_t> axes;
  for (size_t axis = 2; axis < setup.rank(); ++axis) axes.push_back(static_cast<int64_t>(axis));
  return {[axes](Inputs in, Outputs out) { out[0] = at::mean(in[0], axes, true); }, "aten::mean", true};
}

// Planes of one and of more than three axes are pooled as lines.
Prepared global_max_pool(const Setup& setup) {
  if (setup.rank() == 4)
    return {[](Inputs in, Outputs out) {
              out[0] = std::get<0>(at::adaptive_max_pool2d(in[0], {1, 1}));
            },
            "aten::adaptive_max_pool2d", true};
  const auto sizes = setup.outputs[0].shape.sizes();
  return {[sizes](Inputs in, Outputs out) {
            out[0] = std::get<0>(at::adaptive_max_pool1d(in[0].flatten(2), {1})).reshape(sizes);
          },
          "aten::adaptive_max_pool1d"};
}

}  // namespace
D5_TORCH_OPERATOR("MaxPool", max_pool);
D5_TORCH_OPERATOR("AveragePool", average_pool);
D5_TORCH_OPERATOR("GlobalAveragePool", global_average_pool);
D5_TORCH_OPERATOR("GlobalMaxPool", global_max_pool);
}  // namespace d5::libtorch
