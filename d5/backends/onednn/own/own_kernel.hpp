// SPDX-License-Identifier: Apache-2.0
// What our own kernels share: dense tensors, buffers bound once, walks prepared once. An operator's file says in
// build() which walks each pass takes, or overrides run() for a loop of its own. A node whose results are known before
// the run (the shape of a tensor, and what is made of it) is stored, whatever its operator.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "d5/backends/onednn/own/traversal.hpp"

namespace d5::onednn::own {

class OwnKernel : public Kernel {
 public:
  std::optional<std::string> why_not(const KernelSetup&) const final;
  void arrange(KernelSetup&) const override;
  void prepare(KernelSetup&) final;
  void bind(int binding, const Buffers&) final;
  void forward(int binding) final;
  void backward(int binding) final { run(Pass::backward, bound_[binding]); }
  std::string implementation() const override { return std::string("own:") + loops().isa; }
  size_t workspace_bytes() const final { return workspace_bytes_; }
  size_t scratch_bytes() const final { return scratch_bytes_; }

  // The one order of axes in which the tensors of a kernel that follows orders lie. One whose axes but one have a
  // single element lies the same in any order, and the plan names none for it.
  static AxisOrder lying_order(const KernelSetup&);

 protected:
  // Why this node cannot be computed here. The default: every type must be one of f32, bf16, f16 and bool.
  virtual std::optional<std::string> cannot(const KernelSetup&) const;
  // Shapes are as tensors lie (KernelSetup::input_orders tells how), so that a kernel that goes through all elements
  // alike need not know.
  virtual void build(const KernelSetup&) = 0;
  virtual void run(Pass, const Buffers&);
  // Whether inputs may lie in any order of axes, the same for all of them and for the outputs.
  virtual bool follows_orders() const { return false; }
  // Whether build() is given shapes as the network has them instead, and looks at the orders itself.
  virtual bool knows_orders() const { return false; }

  Traversal& add_walk(Pass, const Shape& space);  // valid until the next one is added
  void need_scratch(size_t bytes) { scratch_bytes_ = std::max(scratch_bytes_, bytes); }
  size_t need_workspace(size_t bytes);  // its offset

  // Gradients of inputs that are broadcast to `space`, each a chain of what its walk reads and of dy, a source of the
  // walk or Link::previous (the sum of several). Whole ones share a walk, small reduced ones join it, large reduced
  // ones take a walk each.
  struct Gradient {
    size_t input;
    std::function<std::vector<Link>(Traversal&, size_t dy)> chain;
  };
  void add_gradients(const KernelSetup&, const Shape& space, const std::vector<Gradient>&);

  // Answers of build() for the plan of a network. What walks read, and where they work in place, is found without it.
  KernelMemory memory_;
  void backward_reads_nothing() { memory_.backward_inputs = memory_.backward_outputs = std::vector<bool>(); }

  static std::optional<std::string> wrong_type(const TensorSpec&);
  // Where this axis lies, for kernels that follow orders.
  static size_t lying_axis(const KernelSetup&, size_t axis);

 private:
  void find_memory(const KernelSetup&);
  std::vector<Traversal> add_gradients(const KernelSetup&, const Shape& space, const std::vector<Gradient>&,
                                       size_t summands);

  std::vector<Traversal> forward_walks_;
  std::vector<std::vector<Traversal>> backward_walks_;  // by the number of summands of dy, less one
  std::vector<Buffers> bound_;
  std::vector<std::shared_ptr<const Tensor>> known_;  // of every output that is wanted; empty: they are computed
  size_t workspace_bytes_ = 0, scratch_bytes_ = 0;
};

// The function of this name; every name is one of the tables in loops/.
const TileFunctions& functions(std::string_view op);

}  // namespace d5::onednn::own
