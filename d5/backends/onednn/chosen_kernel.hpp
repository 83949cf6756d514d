// SPDX-License-Identifier: Apache-2.0
// A kernel that is one of several: which, is known once the sizes are.
#pragma once

#include <memory>
#include <string>

#include "d5/backends/onednn/kernel.hpp"

namespace d5::onednn {

class ChosenKernel : public Kernel {
 public:
  void prepare(KernelSetup& setup) override {
    kernel_ = choose(setup);
    kernel_->prepare(setup);
  }
  void bind(int binding, const Buffers& buffers) override { kernel_->bind(binding, buffers); }
  void refresh(int binding) override { kernel_->refresh(binding); }
  void forward(int binding) override { kernel_->forward(binding); }
  void backward(int binding) override { kernel_->backward(binding); }
  std::string implementation() const override { return kernel_->implementation(); }
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }

 private:
  virtual std::unique_ptr<Kernel> choose(const KernelSetup&) const = 0;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace d5::onednn
