// SPDX-License-Identifier: Apache-2.0
// What every oneDNN kernel shares. An operator's file says in build() which primitives compute it; build() keeps
// nothing else, so that asking whether it can is the same as doing it.
#pragma once

#include "d5/backends/onednn/program.hpp"

namespace d5::onednn {

class OnednnKernel : public Kernel {
 public:
  std::optional<std::string> why_not(const KernelSetup&) const final;
  void prepare(KernelSetup&) final;
  void bind(int binding, const Buffers& buffers) final;
  void refresh(int binding) final { program_->refresh(binding); }
  void forward(int binding) final { program_->run(Pass::forward, binding); }
  void backward(int binding) final { program_->run(Pass::backward, binding); }
  std::string implementation() const final { return program_->implementation(); }
  size_t workspace_bytes() const final { return program_->workspace_bytes(); }
  size_t scratch_bytes() const final { return program_->scratch_bytes(); }

 protected:
  // What the operator means but oneDNN does not have. Types and empty tensors are checked for all of them.
  virtual std::optional<std::string> cannot(const KernelSetup&) const { return {}; }
  virtual void build(Program&, const KernelSetup&) const = 0;
  virtual bool knows_winograd() const { return false; }

 private:
  std::optional<Program> program_;
};

}  // namespace d5::onednn
