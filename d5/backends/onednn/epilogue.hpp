// SPDX-License-Identifier: Apache-2.0
// Nodes that follow a convolution or a product and are computed as its post-ops, while results are in registers:
// activations, sums and products with another tensor or with one value per channel.
#pragma once

#include "d5/backends/onednn/program.hpp"

namespace d5::onednn {

class Epilogue {
 public:
  // Whether follower `f` can be one. `channel` is the axis of the output that values per channel belong to.
  static bool takes(const KernelSetup&, size_t f, size_t channel);

  // Of the followers from `first` on. The primitive sees the output as `result`, its channel as `result_channel`.
  Epilogue(const KernelSetup&, size_t first, size_t channel, const Desc& result, size_t result_channel);

  const dnnl::post_ops& operations() const { return operations_; }
  // What the primitive reads beside its own arguments.
  void append_to(std::vector<Argument>& arguments) const;
  // An input that is added to the result and whose bytes the result takes.
  std::optional<size_t> in_place() const { return in_place_; }

 private:
  dnnl::post_ops operations_;
  std::vector<Argument> arguments_;
  std::optional<size_t> in_place_;
};

// Those of a training step: gradients pass through a Relu, which y tells apart.
bool is_relu(const Follower&);
// dy where y is positive, for what lies before a Relu that was computed as a post-op.
Operand add_relu_gradient(Program&, const Operand& y, const Operand& dy);

}  // namespace d5::onednn
