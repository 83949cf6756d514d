// SPDX-License-Identifier: Apache-2.0
// Which ATen functions mean which operator. An entry prepares a node once (attributes are read, or it refuses with a
// reason) and answers with a function from input tensors to output tensors; its gradient is autograd's.
//   D5_TORCH_OPERATOR("Gemm", gemm);
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <span>
#include <string>

#include "d5/backends/backend.hpp"
#include "d5/core/registry.hpp"

namespace d5::libtorch {

using Inputs = std::span<const at::Tensor>;  // undefined: absent
using Outputs = std::span<at::Tensor>;       // as many as the node names; "" too
using Compute = std::function<void(Inputs, Outputs)>;

struct Setup {
  const Node& node;
  const Attributes& attributes;
  std::vector<TensorSpec> inputs, outputs;
  const CompileOptions& options;
  at::Device device;
  const Position* position;  // of the run under way
  std::vector<bool> owned;  // by input: a parameter that nobody else reads, so that its rows may be stored in any order

  bool has(size_t input) const { return input < inputs.size() && inputs[input].present; }
  bool wants(size_t output) const { return output < node.outputs.size() && !node.outputs[output].empty(); }
  size_t rank(size_t input = 0) const { return inputs[input].shape.rank(); }
  DType dtype(size_t input = 0) const { return inputs[input].dtype; }
  int64_t axis(const std::string& name, int64_t otherwise) const {  // counted from the front
    return static_cast<int64_t>(valid_axis(attributes.integer(name, otherwise), rank(), "[torch]"));
  }
  // The value of a small input that is known before the run (the shape of Reshape), or of the attribute of that name,
  // as ONNX had it in earlier versions. Absent: neither is there, or it is not known.
  std::optional<std::vector<int64_t>> integers(size_t input, const std::string& attribute = "") const;
  std::optional<double> real(size_t input, double otherwise) const;  // a scalar; `otherwise` where it is not given
};

struct Prepared {
  Compute compute;
  std::string function;  // as ATen names it
  bool spatial = false;  // channels last is its fast layout
  std::string why_not;
  // Where a node rounds to the type of its tensors on its way to the result, and why; by pass. Empty: sums and
  // intermediate results are held in f32 at least.
  std::string narrow_forward, narrow_backward;
  // Owned inputs whose rows (axis 1) are stored in an order of the library's: its name, and which rows come first.
  struct Rows {
    std::string name;
    std::vector<int64_t> order;
  };
  std::map<size_t, Rows> stored_rows = {};

  // Several ATen functions: each stores its result in the type of the tensors.
  Prepared rounds_between() &&;
  Prepared narrow(std::string forward, std::string backward) &&;
};
using Prepare = std::function<Prepared(const Setup&)>;

void add_operator(const std::string& op, Prepare);
const Prepare* find_operator(const std::string& op);  // or null

struct OperatorLine {
  OperatorLine(const std::string& op, Prepare prepare) { add_operator(op, std::move(prepare)); }
};
#define D5_TORCH_OPERATOR(name, ...) \
  [[maybe_unused]] static const ::d5::libtorch::OperatorLine D5_JOIN(d5_torch_operator_, __COUNTER__)(name, __VA_ARGS__)

template <class... Args>
Prepared refuse(fmt::format_string<Args...> text, Args&&... args) {
  return {.why_not = fmt::format(text, std::forward<Args>(args)...)};
}

// One tensor in, one out.
template <class F>
Prepared elementwise(F f, std::string function) {
  return {[f](Inputs in, Outputs out) { out[0] = f(in[0]); }, "aten::" + std::move(function)};
}

}  // namespace d5::libtorch
