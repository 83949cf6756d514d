// SPDX-License-Identifier: Apache-2.0
#include "d5/core/parameter_set.hpp"

#include "d5/core/error.hpp"
#include "d5/core/rng.hpp"

namespace d5 {
namespace {
constexpr Index most_elements = Index{1} << 56;  // as in Tensor: bits of an arena stay below 2^63
}

ParameterSet::ParameterSet(DType compute, Memory& memory) : compute_dtype_(compute), memory_(&memory) {
  if (compute != DType::f32 && compute != DType::f16 && compute != DType::bf16)
    throw Error("[parameters] a set cannot compute in {}. Legal: f32, f16, bf16", d5::name(compute));
}

void ParameterSet::add(Parameter parameter) {
  const std::string& name = parameter.name;
  const Index elements = parameter.spec.elements();
  if (frozen_) throw Error("[parameters] '{}' is added after freeze()", name);
  if (has(name)) throw Error("[parameters] '{}' is added twice", name);
  if (parameter.spec.dtype != DType::f32 && parameter.spec.dtype != compute_dtype_)
    throw Error("[parameters] '{}' is {}. Legal: f32 or the set's {}", name, d5::name(parameter.spec.dtype),
                d5::name(compute_dtype_));
  if (parameter.padded_elements == 0) parameter.padded_elements = elements;
  if (parameter.padded_elements < elements)
    throw Error("[parameters] '{}' has {} elements, more than its padded {}", name, elements,
                parameter.padded_elements);
  if (parameter.padded_elements > most_elements - elements_)
    throw Error("[parameters] out of memory: '{}' would make the set larger than {} elements", name, most_elements);
  // Each offset is a whole number of 64-byte lines in the region of the narrowest type, so in all of them.
  const Index line = static_cast<Index>(alignment_bytes) * 8 / bits(compute_dtype_);
  parameter.offset = elements_;
  elements_ += (parameter.padded_elements + line - 1) / line * line;
  index_[name] = parameters_.size();
  parameters_.push_back(std::move(parameter));
}

void ParameterSet::freeze() {
  if (frozen_) throw Error("[parameters] freeze() is called twice");
  const auto zeroed = [this](DType type) {
    Tensor region(type, {elements_}, *memory_);
    region.fill_bytes(0);
    return region;
  };
  master_ = zeroed(DType::f32);
  compute_ = compute_dtype_ == DType::f32 ? master_ : zeroed(compute_dtype_);
  gradient_ = zeroed(compute_dtype_);
  frozen_ = true;
}

const ParameterSet::Parameter& ParameterSet::at(const std::string& name) const {
  const auto found = index_.find(name);
  if (found != index_.end()) return parameters_[found->second];
  std::vector<std::string> legal;
  for (const Parameter& parameter : parameters_) legal.push_back(parameter.name);
  fail_unknown("[parameters]", "parameter", name, legal);
}

ParameterSet::Range ParameterSet::range(const std::string& name) const {
  const Parameter& parameter = at(name);
  return {parameter.offset, parameter.padded_elements};
}

Tensor ParameterSet::master(const std::string& name) const { return part(master_, range(name)); }
Tensor ParameterSet::compute(const std::string& name) const {
  return part(at(name).spec.dtype == DType::f32 ? master_ : compute_, range(name));
}
Tensor ParameterSet::gradient(const std::string& name) const { return part(gradient_, range(name)); }

Tensor ParameterSet::masters(Range range) const { return part(master_, range); }
Tensor ParameterSet::computes(Range range) const { return part(compute_, range); }
Tensor ParameterSet::gradients(Range range) const { return part(gradient_, range); }

Tensor ParameterSet::part(const Tensor& region, Range range) const {
  if (!frozen_) throw Error("[parameters] there are no bytes before freeze()");
  return region.slice(range.first, range.count);
}

uint64_t ParameterSet::layout_hash() const {
  std::string text(d5::name(compute_dtype_));
  for (const Parameter& p : parameters_)
    text += fmt::format("\n{}\t{}\t{}\t{}\t{}\t{}", p.name, to_string(p.spec), p.layout, p.offset, p.padded_elements,
                        p.trainable);
  return stream_of(text);
}

}  // namespace d5
