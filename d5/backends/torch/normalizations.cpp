// SPDX-License-Identifier: Apache-2.0
// Normalisations.
#include <ATen/core/Tensor.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/instance_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/rms_norm.h>

#include <algorithm>

#include "d5/backends/torch/library.hpp"
#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {
namespace {

constexpr const char* narrow_sums = "the gradients of scale and bias are added in the type of the tensors";

// The running statistics: torch counts the share of the new value, and takes the unbiased variance of the batch; ONNX
// counts the share of the old one and takes the biased. They are computed beside, from the batch's own.
Prepared batch_normalization(const Setup& setup) {
  const double epsilon = setup.attributes.real("epsilon", 1e-5), momentum = setup.attributes.real("momentum", 0.9);
  const bool training = setup.attributes.flag("training_mode", false);
  const bool line = setup.rank() == 1;  // N values of one channel
  const auto planes = [line](const at::Tensor& x) { return line ? x.unsqueeze(1) : x; };
  const auto as_given = [line](const at::Tensor& y) { return line ? y.squeeze(1) : y; };
  for (size_t i = 2; i < 5; ++i)
    if (setup.dtype(i) != setup.dtype(1)) return refuse("torch wants one type for scale, B, mean and var");
  // Training on f16 is cuDNN's, and channels last have a kernel of their own.
  const bool images = setup.options.layout == LayoutChoice::fast && (setup.rank() == 4 || setup.rank() == 5);
  const std::string narrow_backward =
      setup.device.is_cuda() && !images && !(training && setup.dtype() == DType::f16)
          ? "the gradient's products and partial sums are rounded to the type of X (Float2 in ATen's CUDA kernel)"
          : "";
  if (!training)
    return {[=](Inputs in, Outputs out) {
              out[0] = as_given(at::batch_norm(planes(in[0]), in[1], in[2], in[3], in[4], false, 0, epsilon, true));
            },
            "aten::batch_norm",
            true,
            "",
            "",
            narrow_backward};
  const bool running = setup.wants(1) || setup.wants(2);
  const Shape& x = setup.inputs[0].shape;
  const double channels = line ? 1.0 : static_cast<double>(std::max<int64_t>(x[1], 1));
  const double count = static_cast<double>(x.elements()) / channels;
  if (count < 2) return refuse("torch refuses to train on one value per channel");
  // running_torch = m old + (1 - m) var N / (N - 1), so the biased one is that with the last term scaled back.
  const double biased = (count - 1) / count;
  return {[=](Inputs in, Outputs out) {
            if (!running) {
              out[0] = as_given(at::batch_norm(planes(in[0]), in[1], in[2], {}, {}, true, 0, epsilon, true));
              return;
            }
            at::Tensor mean = in[3].detach().clone(), variance = in[4].detach().clone();
            out[0] = as_given(
                at::batch_norm(planes(in[0]), in[1], in[2], mean, variance, true, 1 - momentum, epsilon, true));
            if (out.size() > 1) out[1] = mean;
            if (out.size() > 2) out[2] = variance.mul(biased).add(in[4].detach(), momentum * (1 - biased));
          },
          "aten::batch_norm",
          true,
          "",
          "",
          narrow_backward};
}

// The sizes of the axes from `axis` on.
std::vector<int64_t> normalized_sizes(const Setup& setup) {
  const Shape& x = setup.inputs[0].shape;
  return {x.begin() + setup.axis("axis", -1), x.end()};
}

// Scale and B broadcast to the normalised axes; torch wants them whole.
Prepared layer_normalization(const Setup& setup) {
  const double epsilon = setup.attributes.real("epsilon", 1e-5);
  const auto sizes = normalized_sizes(setup);
  const bool bias = setup.has(2);
  const auto scale = [sizes](Inputs in) { return in[1].expand(sizes); };
  const auto shift = [=](Inputs in) { return bias ? std::optional<at::Tensor>(in[2].expand(sizes)) : std::nullopt; };
  if (!setup.wants(1) && !setup.wants(2))
    return {[=](Inputs in, Outputs out) { out[0] = at::layer_norm(in[0], sizes, scale(in), shift(in), epsilon); },
            "aten::layer_norm",
            false,
            "",
            "",
            narrow_sums};
  if (setup.device.is_cpu() && bits(setup.dtype()) < 32)
    return refuse("torch keeps the mean and deviation of {} in {} on the cpu", name(setup.dtype()),
                  name(setup.dtype()));
  const at::ScalarType stash = scalar_type(setup.outputs.back().dtype);
  return {[=](Inputs in, Outputs out) {
            auto [y, mean, deviation] = at::native_layer_norm(in[0], sizes, scale(in), shift(in), epsilon);
            out[0] = y;
            if (out.size() > 1) out[1] = mean.to(stash);
            if (out.size() > 2) out[2] = deviation.to(stash);
          },
          "aten::native_layer_norm",
          false,
          "",
          "",
          narrow_sums};
}

Prepared instance_normalization(const Setup& setup) {
  const double epsilon = setup.attributes.real("epsilon", 1e-5);
  return {[epsilon](Inputs in, Outputs out) {
            out[0] = at::instance_norm(in[0], in[1], in[2], {}, {}, true, 0, epsilon, true);
          },
          "aten::instance_norm",
          true,
          "",
          "",
          narrow_sums};
}

Prepared group_normalization(const Setup& setup) {
  const double epsilon = setup.attributes.real("epsilon", 1e-5);
  const int64_t groups = setup.attributes.integer("num_groups", 1);
  return {[=](Inputs in, Outputs out) { out[0] = at::group_norm(in[0], groups, in[1], in[2], epsilon); },
          "aten::group_norm", true};
}

Prepared rms_normalization(const Setup& setup) {
  if (setup.dtype(1) != setup.dtype(0)) return refuse("torch wants one type for X and scale");
  const double epsilon = setup.attributes.real("epsilon", 1e-5);
  const auto sizes = normalized_sizes(setup);
  return {[=](Inputs in, Outputs out) { out[0] = at::rms_norm(in[0], sizes, in[1].expand(sizes), epsilon); },
          "aten::rms_norm"};
}

// As torch.nn.functional composes it, with ONNX's window where its size is even.
Prepared local_response_normalization(const Setup& setup) {
  const double alpha = setup.attributes.real("alpha", 1e-4), beta = setup.attributes.real("beta", 0.75),
               bias = setup.attributes.real("bias", 1);
  const int64_t size = setup.attributes.integer("size", 1), before = (size - 1) / 2, after = size / 2;
  const Shape& x = setup.inputs[0].shape;
  const std::vector<int64_t> plane{x[0], 1, x[1], x.elements(2, x.rank())}, sizes = x.sizes();
  return Prepared{
      [=](Inputs in, Outputs out) {
        const at::Tensor squares = in[0].square().reshape(plane);
        const at::Tensor means = at::avg_pool2d(at::constant_pad_nd(squares, {0, 0, before, after}), {size, 1}, 1);
        out[0] = in[0].div(means.reshape(sizes).mul(alpha).add(bias).pow(beta));
      },
      "aten::square, constant_pad_nd, avg_pool2d, mul, add, pow, div"}
      .rounds_between();
}

}  // namespace
D5_TORCH_OPERATOR("BatchNormalization", batch_normalization);
D5_TORCH_OPERATOR("LayerNormalization", layer_normalization);
D5_TORCH_OPERATOR("InstanceNormalization", instance_normalization);
D5_TORCH_OPERATOR("GroupNormalization", group_normalization);
D5_TORCH_OPERATOR("RMSNormalization", rms_normalization);
D5_TORCH_OPERATOR("LRN", local_response_normalization);
}  // namespace d5::libtorch
