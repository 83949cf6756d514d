// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions.
#include <ATen/core/Tensor.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include "d5/backends/torch/geometry.hpp"
#include "d5/backends/torch/library.hpp"

namespace d5::libtorch {
namespace {

// Y = alpha A' B' + beta C. Transposes are views: BLAS reads them as they lie.
Prepared gemm(const Setup& setup) {
  const Attributes& a = setup.attributes;
  const bool trans_a = a.flag("transA", false), trans_b = a.flag("transB", false);
  const bool floats = is_float(setup.dtype());
  const auto factor = [&](const char* name) {
    const double value = a.real(name, 1);
    return floats ? at::Scalar(value) : at::Scalar(static_cast<int64_t>(value));
  };
  const at::Scalar alpha = factor("alpha"), beta = factor("beta");
  const auto left = [trans_a](Inputs in) { return trans_a ? in[0].t() : in[0]; };
  const auto right = [trans_b](Inputs in) { return trans_b ? in[1].t() : in[1]; };
  if (setup.has(2))
    return {[=](Inputs in, Outputs out) { out[0] = at::addmm(in[2], left(in), right(in), beta, alpha); },
            "aten::addmm"};
  if (a.real("alpha", 1) == 1)
    return {[=](Inputs in, Outputs out) { out[0] = at::mm(left(in), right(in)); }, "aten::mm"};
  // One rounding: the factor is applied inside the product.
  const at::Tensor nothing = at::zeros({}, at::dtype(scalar_type(setup.dtype())).device(setup.device));
  return {[=](Inputs in, Outputs out) { out[0] = at::addmm(nothing, left(in), right(in), 0, alpha); }, "aten::addmm"};
}

Prepared matmul(const Setup&) {
  return {[](Inputs in, Outputs out) { out[0] = at::matmul(in[0], in[1]); }, "aten::matmul"};
}

std::string backend_name(at::native::ConvBackend backend) {
  using at::native::ConvBackend;
  switch (backend) {
    case ConvBackend::Mkldnn: return "mkldnn";
    case ConvBackend::Cudnn: return "cudnn";
    case ConvBackend::CudaDepthwise2d:
    case ConvBackend::CudaDepthwise3d: return "cuda depthwise";
    case ConvBackend::Overrideable: return "overrideable";
    case ConvBackend::Slow2d:
    case ConvBackend::Slow3d:
    case ConvBackend::SlowDilated2d:
    case ConvBackend::SlowDilated3d:
    case ConvBackend::SlowTranspose2d:
    case ConvBackend::SlowTranspose3d: return "slow: im2col";
    default: return fmt::format("backend {}", static_cast<int>(backend));
  }
}

Prepared convolution(const Setup& setup) {
  if (setup.options.math == Math::bf16) return refuse("torch's switch for bf16 covers matrix products alone");
  const Geometry g = window_geometry(setup, spatial_sizes(setup.inputs[1].shape));
  const int64_t groups = setup.attributes.integer("group", 1);
  const std::vector<int64_t> no_output_padding(g.kernel.size(), 0);
  std::string function = "aten::convolution";
  if (!g.symmetric) function = "aten::constant_pad_nd, " + function;
  // What the library would choose, asked with tensors whose pages nobody touches.
  const auto like = [&](size_t i) {
    const bool last = setup.options.layout == LayoutChoice::fast && setup.rank(i) >= 4;
    return at::empty(setup.inputs[i].shape.sizes(), at::dtype(scalar_type(setup.inputs[i].dtype)).device(setup.device),
                     last ? channels_last_format(setup.rank(i)) : at::MemoryFormat::Contiguous);
  };
  const auto list = [](const std::vector<int64_t>& values) { return c10::fromIntArrayRefSlow(values); };
  const auto chosen = at::native::select_conv_backend(
      like(0), like(1), setup.has(2) ? std::optional(like(2)) : std::nullopt, list(g.stride), list(g.begin),
      list(g.dilation), false, list(no_output_padding), groups, std::nullopt);
  function += " (" + backend_name(chosen) + ")";
  return {[=, bias = setup.has(2)](Inputs in, Outputs out) {
            const at::Tensor x = g.symmetric ? in[0] : at::constant_pad_nd(in[0], g.all_pads());
            out[0] = at::convolution(x, in[1], bias ? std::optional(in[2]) : std::nullopt, g.stride,
                                     g.symmetric ? g.begin : no_output_padding, g.dilation, false, no_output_padding,
                                     groups);
          },
          function, true};
}

}  // namespace
D5_TORCH_OPERATOR("Gemm", gemm);
D5_TORCH_OPERATOR("MatMul", matmul);
D5_TORCH_OPERATOR("Conv", convolution);
}  // namespace d5::libtorch
