// SPDX-License-Identifier: Apache-2.0
// A backend around another one: everything passes through but what a derived class changes.
#pragma once

#include "d5/backends/backend.hpp"

namespace d5 {

class WrappedExecutable : public Executable {
 public:
  explicit WrappedExecutable(std::unique_ptr<Executable> inner) : inner_(std::move(inner)) {}
  void forward(const Run& run) override { inner_->forward(run); }
  void backward(const Run& run) override { inner_->backward(run); }
  void write(Role role, const std::string& name, const Tensor& value, int slot) override {
    inner_->write(role, name, value, slot);
  }
  Tensor read(Role role, const std::string& name, int slot) override { return inner_->read(role, name, slot); }
  void write_value(const std::string& name, const GraphValue& value, int slot) override {
    inner_->write_value(name, value, slot);
  }
  GraphValue read_value(const std::string& name, int slot) override { return inner_->read_value(name, slot); }
  Tensor view(Role role, const std::string& name, int slot) override { return inner_->view(role, name, slot); }
  size_t bytes() const override { return inner_->bytes(); }
  Facts kernels() const override { return inner_->kernels(); }
  std::string overrun() const override { return inner_->overrun(); }
  std::string narrow_arithmetic(Pass pass) const override { return inner_->narrow_arithmetic(pass); }
  std::optional<size_t> workspace_bytes() const override { return inner_->workspace_bytes(); }

 protected:
  std::unique_ptr<Executable> inner_;
};

class WrappedBackend : public Backend {
 public:
  explicit WrappedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}
  std::optional<std::string> why_not(const Graph& graph, const CompileOptions& options) const override {
    return inner_->why_not(graph, options);
  }
  std::unique_ptr<Executable> compile(const Graph& graph, ParameterSet& set, const CompileOptions& options) override {
    return inner_->compile(graph, set, options);
  }
  Facts facts() const override { return inner_->facts(); }
  Memory& memory(const std::string& device) override { return inner_->memory(device); }
  Memory& staging_memory(const std::string& device) override { return inner_->staging_memory(device); }
  std::unique_ptr<DeviceProbe> probe(const std::string& device) override { return inner_->probe(device); }
  Mark mark() override { return inner_->mark(); }
  double seconds(const Mark& from, const Mark& to) override { return inner_->seconds(from, to); }
  void synchronize() override { inner_->synchronize(); }

 protected:
  std::unique_ptr<Backend> inner_;
};

}  // namespace d5
