// SPDX-License-Identifier: Apache-2.0
// Losses, softmax and its logarithm.
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/binary_cross_entropy.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/nll_loss_nd.h>
#include <ATen/ops/softmax.h>

#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {
namespace {

constexpr int64_t classes = 1;  // their axis

int64_t reduction(const Setup& setup) {
  const std::string word = setup.attributes.text("reduction", "mean");
  return word == "none" ? at::Reduction::None : word == "sum" ? at::Reduction::Sum : at::Reduction::Mean;
}

Prepared softmax(const Setup& setup) {
  const int64_t axis = setup.axis("axis", -1);
  auto prepared = elementwise([axis](const at::Tensor& x) { return at::softmax(x, axis); }, "softmax");
  if (axis + 1 != static_cast<int64_t>(setup.rank()) && setup.device.is_cpu())
    return std::move(prepared).narrow("aten::softmax on the CPU stores exponentials in bf16 along an inner axis", "");
  return prepared;
}

Prepared log_softmax(const Setup& setup) {
  const int64_t axis = setup.axis("axis", -1);
  return elementwise([axis](const at::Tensor& x) { return at::log_softmax(x, axis); }, "log_softmax")
      .narrow(setup.device.is_cpu() ? "aten::log_softmax on the CPU stores the logarithm of the sum in the type of the "
                                      "tensors"
                                    : "",
              "");
}

// Labels of i32 are widened: ATen reads i64.
Prepared class_loss(const Setup& setup) {
  const int64_t how = reduction(setup), ignored = setup.attributes.integer("ignore_index", -100);
  const bool scores = setup.node.op == "SoftmaxCrossEntropyLoss", probabilities = setup.node.op == "CrossEntropy";
  const auto weight = [given = setup.has(2)](Inputs in) { return given ? std::optional(in[2]) : std::nullopt; };
  if (scores && !setup.wants(1))
    return Prepared{[=](Inputs in, Outputs out) {
                      out[0] = at::cross_entropy_loss(in[0], in[1].to(at::kLong), weight(in), how, ignored);
                    },
                    "aten::cross_entropy_loss"}
        .rounds_between();
  return Prepared{
      [=](Inputs in, Outputs out) {
        const at::Tensor z = scores ? at::log_softmax(in[0], classes) : probabilities ? at::log(in[0]) : in[0];
        out[0] = at::nll_loss_nd(z, in[1].to(at::kLong), weight(in), how, ignored);
        if (scores) out[1] = z;
      },
      scores          ? "aten::log_softmax, nll_loss_nd"
      : probabilities ? "aten::log, nll_loss_nd"
                      : "aten::nll_loss_nd"}
      .rounds_between();
}

Prepared squared_error(const Setup& setup) {
  const int64_t how = reduction(setup);
  return Prepared{[how](Inputs in, Outputs out) { out[0] = at::mse_loss(in[0], in[1], how); }, "aten::mse_loss"}
      .rounds_between();
}

Prepared binary_cross_entropy(const Setup& setup) {
  const int64_t how = reduction(setup);
  return Prepared{[how](Inputs in, Outputs out) { out[0] = at::binary_cross_entropy(in[0], in[1], {}, how); },
                  "aten::binary_cross_entropy"}
      .rounds_between();
}

}  // namespace
D5_TORCH_OPERATOR("Softmax", softmax);
D5_TORCH_OPERATOR("LogSoftmax", log_softmax);
D5_TORCH_OPERATOR("SoftmaxCrossEntropyLoss", class_loss);
D5_TORCH_OPERATOR("NegativeLogLikelihoodLoss", class_loss);
D5_TORCH_OPERATOR("CrossEntropy", class_loss);
D5_TORCH_OPERATOR("MeanSquaredError", squared_error);
D5_TORCH_OPERATOR("BinaryCrossEntropy", binary_cross_entropy);
}  // namespace d5::libtorch
