// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/kernel_parameters.hpp"

#include <algorithm>
#include <cstring>

namespace d5 {

KernelParameters::KernelParameters(const KernelPlan& plan, ParameterSet& parameters)
    : in_set(plan.values.size(), false), first_reader(plan.values.size(), none), plan_(plan), parameters_(parameters) {
  const auto holds = [&](const PlannedValue& value) {
    return value.parameter && (value.spec.dtype == DType::f32 || value.spec.dtype == parameters_.compute_dtype());
  };
  for (size_t s = plan_.steps.size(); s-- > 0;)
    for (const size_t v : plan_.steps[s].inputs)
      if (v != none) first_reader[plan_.root(v)] = s;
  const bool first = !parameters_.frozen();
  for (size_t s = plan_.steps.size(); s-- > 0;)
    for (const size_t v : plan_.steps[s].inputs) {
      const size_t r = v == none ? none : plan_.root(v);
      if (r == none || !holds(plan_.values[r]) || first_reader[r] != s || in_set[r] || is_copied(r)) continue;
      in_set[r] = true;
      first ? add(r) : join(r);
    }
  if (first) parameters_.freeze();
}

void KernelParameters::add(size_t v) {
  const PlannedValue& value = plan_.values[v];
  parameters_.add({.name = value.name,
                   .spec = value.spec,
                   .padded_elements = native_elements(value.bytes(), value.spec.dtype),
                   .layout = value.layout ? value.layout->name() : "",
                   .native = value.layout,
                   .trainable = value.differentiable});
}

void KernelParameters::join(size_t v) {
  const PlannedValue& value = plan_.values[v];
  const std::string layout = value.layout ? value.layout->name() : "";
  const ParameterSet::Parameter& shared = parameters_.at(value.name);
  const bool same_shape = shared.spec.shape == value.spec.shape;
  if (same_shape && shared.layout == layout) return;
  const bool converts = shared.layout.empty() || shared.native;
  if (value.gradient || !same_shape || !converts)
    throw Error("[executable] parameter '{}' is {} in layout '{}' here, but {} in layout '{}' in the shared set",
                value.name, to_string(value.spec), layout, to_string(shared.spec), shared.layout);
  in_set[v] = false;
  copied.push_back(v);
}

bool KernelParameters::is_copied(size_t v) const { return std::ranges::find(copied, v) != copied.end(); }

Tensor KernelParameters::shared_value(size_t v) const {
  const PlannedValue& value = plan_.values[v];
  const Tensor canonical(value.spec.dtype, value.spec.shape), native = parameters_.compute(value.name);
  if (const LayoutPtr& layout = parameters_.at(value.name).native)
    layout->to_plain(native.data(), canonical);
  else
    std::memcpy(canonical.data(), native.data(), canonical.bytes());
  return canonical;
}

}  // namespace d5
