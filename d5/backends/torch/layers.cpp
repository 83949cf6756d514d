// SPDX-License-Identifier: Apache-2.0
// Pools, normalisations and softmax.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/max_pool3d_with_indices.h>
#include <ATen/ops/softmax.h>

#include <limits>

#include "d5/backends/torch/geometry.hpp"
#include "d5/backends/torch/library.hpp"

namespace d5::libtorch {
namespace {

Prepared softmax(const Setup& setup) {
  const int64_t axis = setup.axis("axis", -1);
  return elementwise([axis](const at::Tensor& x) { return at::softmax(x, axis); }, "softmax");
}

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
            function, true};
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
          function + "_with_indices", true};
}

// The running statistics: torch counts the share of the new value, and takes the unbiased variance of the batch; ONNX
// counts the share of the old one and takes the biased. They are computed beside, from the batch's own.
Prepared batch_normalization(const Setup& setup) {
  const double epsilon = setup.attributes.real("epsilon", 1e-5), momentum = setup.attributes.real("momentum", 0.9);
  const bool training = setup.attributes.flag("training_mode", false);
  if (setup.rank() == 1) {
    return refuse("torch normalises N x C and more axes, not one");
  }
  for (size_t i = 2; i < 5; ++i)
    if (setup.dtype(i) != setup.dtype(1)) return refuse("torch wants one type for scale, B, mean and var");
  if (!training)
    return {[=](Inputs in, Outputs out) {
              out[0] = at::batch_norm(in[0], in[1], in[2], in[3], in[4], false, 0, epsilon, true);
            },
            "aten::batch_norm", true};
  const bool running = setup.wants(1) || setup.wants(2);
  const Shape& x = setup.inputs[0].shape;
  const double count = static_cast<double>(x.elements()) / static_cast<double>(std::max<int64_t>(x[1], 1));
  if (count < 2) return refuse("torch refuses to train on one value per channel");
  // running_torch = m old + (1 - m) var N / (N - 1), so the biased one is that with the last term scaled back.
  const double biased = (count - 1) / count;
  return {[=](Inputs in, Outputs out) {
            if (!running) {
              out[0] = at::batch_norm(in[0], in[1], in[2], {}, {}, true, 0, epsilon, true);
              return;
            }
            at::Tensor mean = in[3].detach().clone(), variance = in[4].detach().clone();
            out[0] = at::batch_norm(in[0], in[1], in[2], mean, variance, true, 1 - momentum, epsilon, true);
            if (out.size() > 1) out[1] = mean;
            if (out.size() > 2) out[2] = variance.mul(biased).add(in[4].detach(), momentum * (1 - biased));
          },
          "aten::batch_norm", true};
}

}  // namespace
D5_TORCH_OPERATOR("Softmax", softmax);
D5_TORCH_OPERATOR("MaxPool", max_pool);
D5_TORCH_OPERATOR("BatchNormalization", batch_normalization);
}  // namespace d5::libtorch
