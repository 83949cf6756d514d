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
#include <ATen/ops/sparse_compressed_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "d5/backends/torch/geometry.hpp"
#include "d5/backends/torch/library.hpp"
#include "d5/operators/window.hpp"

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
  const std::string scaled =
      a.real("alpha", 1) == 1 && a.real("beta", 1) == 1 ? "" : "autograd scales products that were stored";
  // Seen with cuBLAS 13 on an H200: alone of all shapes and types these have two roundings.
  const bool row = setup.outputs[0].shape[0] == 1 && setup.dtype() == DType::f16 && setup.device.is_cuda();
  const std::string stored = row ? "cuBLAS stores the product of one row in f16 before it adds C" : "";
  const auto left = [trans_a](Inputs in) { return trans_a ? in[0].t() : in[0]; };
  const auto right = [trans_b](Inputs in) { return trans_b ? in[1].t() : in[1]; };
  if (setup.has(2))
    return {[=](Inputs in, Outputs out) { out[0] = at::addmm(in[2], left(in), right(in), beta, alpha); },
            "aten::addmm",
            false,
            "",
            stored,
            scaled};
  if (a.real("alpha", 1) == 1)
    return {[=](Inputs in, Outputs out) { out[0] = at::mm(left(in), right(in)); }, "aten::mm"};
  // One rounding: the factor is applied inside the product.
  const at::Tensor nothing = at::zeros({}, at::dtype(scalar_type(setup.dtype())).device(setup.device));
  return {[=](Inputs in, Outputs out) { out[0] = at::addmm(nothing, left(in), right(in), 0, alpha); },
          "aten::addmm",
          false,
          "",
          "",
          scaled};
}

// Where an operand is broadcast over a batch its gradient is stored for each entry before it is summed.
Prepared matmul(const Setup& setup) {
  const Shape &a = setup.inputs[0].shape, &b = setup.inputs[1].shape;
  const auto stack = [](const Shape& s) { return s.rank() > 2 ? s.elements(0, s.rank() - 2) : 1; };
  const bool broadcasts = stack(a) != stack(b) || stack(a) != stack(setup.outputs[0].shape);
  return {[](Inputs in, Outputs out) { out[0] = at::matmul(in[0], in[1]); },
          "aten::matmul",
          false,
          "",
          "",
          broadcasts ? "the gradients of a broadcast operand are stored before they are summed" : ""};
}

std::string backend_name(at::native::ConvBackend backend) {
  using at::native::ConvBackend;
  switch (backend) {
    case ConvBackend::Mkldnn:
    case ConvBackend::MkldnnTranspose: return "mkldnn";
    case ConvBackend::Cudnn:
    case ConvBackend::CudnnTranspose: return "cudnn";
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

struct Sliding {
  std::vector<int64_t> stride, pad, dilation, output_padding;
  int64_t groups;
  bool transposed;
};

// What the library would choose, asked with tensors whose pages nobody touches.
std::string chosen_backend(const Setup& setup, const Sliding& s) {
  const auto like = [&](size_t i) {
    const bool last = setup.options.layout == LayoutChoice::fast && setup.rank(i) >= 4;
    return at::empty(setup.inputs[i].shape.sizes(), at::dtype(scalar_type(setup.inputs[i].dtype)).device(setup.device),
                     last ? channels_last_format(setup.rank(i)) : at::MemoryFormat::Contiguous);
  };
  const auto list = [](const std::vector<int64_t>& values) { return c10::fromIntArrayRefSlow(values); };
  return backend_name(at::native::select_conv_backend(
      like(0), like(1), setup.has(2) ? std::optional(like(2)) : std::nullopt, list(s.stride), list(s.pad),
      list(s.dilation), s.transposed, list(s.output_padding), s.groups, std::nullopt));
}

constexpr const char* f16_of_cudnn = "cuDNN may convolve f16 by transforms, or add parts of a sum in f16";

std::string narrow_forward_of(const Setup& setup, const std::string& backend) {
  if (backend != "cudnn") return "";
  if (setup.dtype() == DType::f16) return f16_of_cudnn;
  return setup.has(2) ? "cuDNN's result is stored before the bias is added" : "";
}

// oneDNN computes f16 forward alone; the library's own loops add in f16.
std::string narrow_f16(const Setup& setup) {
  if (setup.dtype() != DType::f16) return "";
  return setup.device.is_cpu() ? "torch's own convolution on the CPU adds in f16" : f16_of_cudnn;
}

Prepared convolution(const Setup& setup) {
  if (setup.options.math == Math::bf16) return refuse("torch's switch for bf16 covers matrix products alone");
  const Geometry g = window_geometry(setup, spatial_sizes(setup.inputs[1].shape));
  const int64_t groups = setup.attributes.integer("group", 1);
  const std::vector<int64_t> no_output_padding(g.kernel.size(), 0);
  std::string function = "aten::convolution";
  if (!g.symmetric) function = "aten::constant_pad_nd, " + function;
  const std::string backend = chosen_backend(setup, {g.stride, g.begin, g.dilation, no_output_padding, groups, false});
  function += " (" + backend + ")";
  return {[=, bias = setup.has(2)](Inputs in, Outputs out) {
            const at::Tensor x = g.symmetric ? in[0] : at::constant_pad_nd(in[0], g.all_pads());
            out[0] = at::convolution(x, in[1], bias ? std::optional(in[2]) : std::nullopt, g.stride,
                                     g.symmetric ? g.begin : no_output_padding, g.dilation, false, no_output_padding,
                                     groups);
          },
          function,
          true,
          "",
          narrow_forward_of(setup, backend),
          narrow_f16(setup)};
}

// The library's rule is out = (in - 1) stride - 2 pad + reach + output_padding. Where no output_padding below the
// stride gives ONNX's sizes (other padding at the end than at the beginning), the unpadded result is cut.
Prepared transposed_convolution(const Setup& setup) {
  if (setup.options.math == Math::bf16) return refuse("torch's switch for bf16 covers matrix products alone");
  const std::vector<int64_t> input = spatial_sizes(setup.inputs[0].shape),
                             kernel = spatial_sizes(setup.inputs[1].shape);
  const Window window = Window::transposed(setup.attributes, input, kernel, "[torch]");
  const std::vector<int64_t> output = spatial_sizes(setup.outputs[0].shape);
  const int64_t groups = setup.attributes.integer("group", 1);
  std::vector<int64_t> stride, dilation, pad, extra, missing;
  bool fits = true;
  for (size_t axis = 0; axis < kernel.size(); ++axis) {
    const size_t w = axis + 3 - kernel.size();
    stride.push_back(window.stride[w]);
    dilation.push_back(window.dilation[w]);
    pad.push_back(window.pad[w]);
    const int64_t full = (input[axis] - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1;
    extra.push_back(output[axis] + 2 * pad[axis] - full);
    missing.push_back(std::max<int64_t>(0, output[axis] + pad[axis] - full));
    fits = fits && extra[axis] >= 0 && extra[axis] < std::max(stride[axis], dilation[axis]);
  }
  const auto bias = [given = setup.has(2)](Inputs in) { return given ? std::optional(in[2]) : std::nullopt; };
  const std::vector<int64_t> none(kernel.size(), 0);
  const std::string backend =
      chosen_backend(setup, {stride, fits ? pad : none, dilation, fits ? extra : none, groups, true});
  const std::string function = "aten::convolution transposed (" + backend + ")",
                    narrow_forward = backend == "cudnn" ? narrow_forward_of(setup, backend) : narrow_f16(setup);
  if (fits)
    return {[=](Inputs in, Outputs out) {
              out[0] = at::convolution(in[0], in[1], bias(in), stride, pad, dilation, true, extra, groups);
            },
            function,
            true,
            "",
            narrow_forward,
            narrow_f16(setup)};
  std::vector<int64_t> more;  // as constant_pad_nd wants them: the last axis first
  for (size_t axis = kernel.size(); axis-- > 0;) more.insert(more.end(), {0, missing[axis]});
  if (setup.has(2) && std::ranges::any_of(missing, [](int64_t n) { return n > 0; }))
    return refuse("torch has no bias in the output that lies beyond the reach of the input");
  return {[=](Inputs in, Outputs out) {
            at::Tensor y = at::convolution(in[0], in[1], bias(in), stride, none, dilation, true, none, groups);
            y = at::constant_pad_nd(y, more);
            for (size_t axis = 0; axis < output.size(); ++axis)
              y = y.narrow(static_cast<int64_t>(axis) + 2, pad[axis], output[axis]);
            out[0] = y;
          },
          function + ", constant_pad_nd, narrow",
          true,
          "",
          narrow_forward,
          narrow_f16(setup)};
}

// A in compressed rows: values, columns, starts of rows; B is dense.
Prepared sparse_gemm(const Setup& setup) {
  const std::vector<int64_t> sizes{setup.outputs[0].shape[0], setup.inputs[3].shape[0]};
  const auto options = at::dtype(scalar_type(setup.dtype())).device(setup.device).layout(at::kSparseCsr);
  const std::string parts = setup.device.is_cuda() ? "cuSPARSE adds up parts of a sum in the type of the tensors" : "";
  return {[=](Inputs in, Outputs out) {
            out[0] = at::mm(at::sparse_compressed_tensor(in[2], in[1], in[0], sizes, options), in[3]);
          },
          "aten::sparse_compressed_tensor, mm",
          false,
          "",
          parts,
          parts};
}

}  // namespace
D5_TORCH_OPERATOR("SparseGemm", sparse_gemm);
D5_TORCH_OPERATOR("Gemm", gemm);
D5_TORCH_OPERATOR("MatMul", matmul);
D5_TORCH_OPERATOR("Conv", convolution);
D5_TORCH_OPERATOR("ConvTranspose", transposed_convolution);
}  // namespace d5::libtorch
