// SPDX-License-Identifier: Apache-2.0
// QuantizeLinear and DequantizeLinear in f32, as exporters of PyTorch write them: divide, round, add, clamp.
#include <ATen/ops/clamp.h>
#include <ATen/ops/round.h>

#include "d5/backends/torch/library.hpp"
#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {
namespace {

using at::Tensor;

std::string why_not(const Setup& setup, const TensorSpec& wide, DType few) {
  if (setup.attributes.integer("block_size", 0) != 0) return "scales serve a tensor or an axis here, not blocks";
  if (setup.attributes.has("precision")) return "the quotient is in f32 here";
  for (const TensorSpec& spec : {wide, setup.inputs[1]})
    if (spec.dtype != DType::f32) return fmt::format("it is made of functions of f32, not of {}", name(spec.dtype));
  if (few != DType::u8 && few != DType::i8 && few != DType::i16 && few != DType::i32)
    return fmt::format("torch computes with i8, u8, i16 and i32, not with {}", name(few));
  return "";
}

// The shape in which scales and zero points meet the tensor: a scalar, or a list along the axis.
std::vector<int64_t> met(const Setup& setup) {
  if (setup.inputs[1].elements() == 1) return {};
  std::vector<int64_t> sizes(setup.rank(), 1);
  sizes[static_cast<size_t>(setup.axis("axis", 1))] = setup.inputs[1].elements();
  return sizes;
}

Prepared quantize(const Setup& setup) {
  const DType type = setup.outputs[0].dtype;
  if (std::string reason = why_not(setup, setup.inputs[0], type); !reason.empty() || type == DType::i32)
    return {.why_not = reason.empty() ? "nothing is quantised to i32" : reason};
  const double low = type == DType::u8   ? 0
                     : type == DType::i8 ? -128
                                         : -32768,
               high = type == DType::u8   ? 255
                      : type == DType::i8 ? 127
                                          : 32767;
  const auto to = type == DType::u8 ? at::kByte : type == DType::i8 ? at::kChar : at::kShort;
  return {[sizes = met(setup), low, high, to](Inputs in, Outputs out) {
            Tensor y = at::round(in[0].div(in[1].reshape(sizes)));
            if (in.size() > 2 && in[2].defined()) y = y.add(in[2].reshape(sizes).to(at::kFloat));
            out[0] = at::clamp(y, low, high).to(to);
          },
          "aten::round"};
}

Prepared dequantize(const Setup& setup) {
  if (std::string reason = why_not(setup, setup.outputs[0], setup.dtype()); !reason.empty())
    return {.why_not = std::move(reason)};
  return {[sizes = met(setup)](Inputs in, Outputs out) {
            Tensor x = in[0].to(at::kFloat);
            if (in.size() > 2 && in[2].defined()) x = x.sub(in[2].reshape(sizes).to(at::kFloat));
            out[0] = x.mul(in[1].reshape(sizes));
          },
          "aten::mul"};
}

}  // namespace
D5_TORCH_OPERATOR("QuantizeLinear", quantize);
D5_TORCH_OPERATOR("DequantizeLinear", dequantize);
}  // namespace d5::libtorch
