// SPDX-License-Identifier: Apache-2.0
// GridSample by torch's grid_sampler, which ONNX took it from: images of 2 or 3 axes.
#include <ATen/core/Tensor.h>
#include <ATen/ops/grid_sampler.h>

#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {
namespace {

Prepared grid_sample(const Setup& setup) {
  const std::string mode = setup.attributes.text("mode", "linear"),
                    padding = setup.attributes.text("padding_mode", "zeros");
  if (setup.rank() < 4) return refuse("torch samples images of 2 or 3 axes");
  if (mode == "cubic" && setup.rank() != 4) return refuse("torch's cubic has two axes");
  if (!is_float(setup.dtype()) || setup.dtype(1) != setup.dtype())
    return refuse("torch wants X and the grid in one float type, not {} and {}", name(setup.dtype()),
                  name(setup.dtype(1)));
  const int64_t how = mode == "linear" ? 0 : mode == "nearest" ? 1 : 2;
  const int64_t beyond = padding == "zeros" ? 0 : padding == "border" ? 1 : 2;
  const bool corners = setup.attributes.flag("align_corners", false);
  return Prepared{[=](Inputs in, Outputs out) { out[0] = at::grid_sampler(in[0], in[1], how, beyond, corners); },
                  "aten::grid_sampler"}
      .narrow("places and weights are stored in the type of the tensors",
              "its gradient adds in the type of the tensors");
}

}  // namespace
D5_TORCH_OPERATOR("GridSample", grid_sample);
}  // namespace d5::libtorch
