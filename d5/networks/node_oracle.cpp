// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/node_oracle.hpp"

#include <algorithm>

#include "d5/core/rng.hpp"

namespace d5 {
namespace {

std::vector<double> doubles(const Tensor& tensor) {
  const Tensor wide = tensor.dtype() == DType::f64 ? tensor : tensor.cast(DType::f64);
  const auto values = wide.values<double>();
  return {values.begin(), values.end()};
}

Tensor widened(const Tensor& tensor) { return tensor.present() ? tensor.cast(compute_dtype(tensor.dtype())) : tensor; }

}  // namespace

NodeOracle::NodeOracle(const Node& node, const Specs& specs, const std::map<std::string, Tensor>& values)
    : op_(make_operator(node)), in_(specs_of(specs, node.inputs)), out_(op_->infer(in_)) {
  out_.resize(std::min(out_.size(), node.outputs.size()));
  for (const std::string& name : node.inputs)
    context_.inputs.push_back(name.empty() ? Tensor() : widened(values.at(name)));
  for (const TensorSpec& spec : in_) context_.input_types.push_back(spec.dtype);
}

std::vector<Tensor> NodeOracle::allocate(const std::vector<TensorSpec>& specs, const std::vector<bool>& wanted) const {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < specs.size(); ++i)
    tensors.push_back(specs[i].present && wanted[i] ? Tensor(compute_dtype(specs[i].dtype), specs[i].shape) : Tensor());
  return tensors;
}

void NodeOracle::run(Context& c, Pass pass) const {
  if (c.outputs.empty()) {
    c.outputs = allocate(out_, std::vector<bool>(out_.size(), true));
    op_->forward(c);
  }
  if (pass == Pass::backward && c.input_gradients.empty()) {
    c.input_gradients = allocate(in_, wanted_);
    op_->backward(c);
  }
}

void NodeOracle::set_output_gradients(const std::vector<Tensor>& gradients, std::vector<bool> wanted) {
  context_.output_gradients.clear();
  for (const Tensor& tensor : gradients) context_.output_gradients.push_back(widened(tensor));
  wanted_ = std::move(wanted);
}

Wanted NodeOracle::all(size_t index, const Arithmetic& arithmetic) {
  const DType type = result(index, arithmetic.pass).dtype;
  const auto result_of = [&](const Context& c) {
    return arithmetic.pass == Pass::forward ? c.output(index) : c.input_gradient(index);
  };
  run(context_, arithmetic.pass);
  Wanted wanted{.values = doubles(result_of(context_))};
  wanted.tolerance.resize(wanted.values.size());
  if (!is_float(type)) return wanted;
  Tensor magnitude = op_->magnitude(context_, arithmetic.pass, index);
  if (!magnitude.present()) {
    if (!absolutes_) {
      absolutes_ = absolute_context(context_);
      absolutes_->outputs.clear();
    }
    run(*absolutes_, arithmetic.pass);
    magnitude = result_of(*absolutes_);
  }
  const Tensor kept = op_->stored_magnitude(context_, arithmetic.pass, index, type);
  wanted.tolerance = tolerances(*op_, in_, index, type, arithmetic, wanted.values, doubles(magnitude),
                                kept.present() ? doubles(kept) : std::vector<double>());
  return wanted;
}

std::optional<Wanted> NodeOracle::some(size_t index, const Arithmetic& arithmetic, size_t count, uint64_t seed) {
  const TensorSpec& spec = result(index, arithmetic.pass);
  if (!is_float(spec.dtype) || spec.elements() <= static_cast<Index>(count)) return {};
  Wanted wanted;
  const Rng rng(seed);
  for (uint64_t i = 0; i < count; ++i)
    wanted.at.push_back(static_cast<Index>(rng.below(i, static_cast<uint64_t>(spec.elements()))));
  wanted.at.push_back(spec.elements() - 1);
  const auto at = [&](const Context& c, std::vector<double>& values) {
    values.resize(wanted.at.size());
    return arithmetic.pass == Pass::forward ? op_->forward_at(c, index, wanted.at, values)
                                            : op_->backward_at(c, index, wanted.at, values);
  };
  if (!at(context_, wanted.values)) return {};
  if (!absolutes_) {
    absolutes_ = absolute_context(context_);
    absolutes_->outputs.clear();
  }
  std::vector<double> magnitude;
  at(*absolutes_, magnitude);
  wanted.tolerance = tolerances(*op_, in_, index, spec.dtype, arithmetic, wanted.values, magnitude, {});
  return wanted;
}

}  // namespace d5
