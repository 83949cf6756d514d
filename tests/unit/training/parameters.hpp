// SPDX-License-Identifier: Apache-2.0
// Small parameter sets for tests of optimizers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "d5/core/parameter_set.hpp"
#include "d5/core/rng.hpp"

namespace d5 {

inline ParameterSet parameters_of(const std::vector<std::pair<std::string, Shape>>& shapes,
                                  DType compute = DType::f32) {
  ParameterSet set(compute);
  for (const auto& [name, shape] : shapes) set.add({.name = name, .spec = {compute, shape}});
  set.freeze();
  return set;
}

// One parameter "p" with these values.
inline ParameterSet one_parameter(const std::vector<float>& values) {
  ParameterSet set = parameters_of({{"p", {static_cast<Index>(values.size())}}});
  std::ranges::copy(values, set.master("p").values<float>().begin());
  return set;
}

inline void set_gradient(ParameterSet& set, const std::vector<float>& values) {
  std::ranges::copy(values, set.gradient("p").values<float>().begin());
}

inline std::vector<float> values_of(const ParameterSet& set) {
  const auto values = set.master("p").values<float>();
  return {values.begin(), values.end()};
}

// Sizes that are no multiples of a register or a chunk, some of one axis; values and gradients from a stream.
inline ParameterSet odd_parameters(DType compute = DType::f32) {
  ParameterSet set = parameters_of({{"conv1.weight", {37, 5, 3, 3}},
                                    {"conv1.bias", {37}},
                                    {"fc.weight", {301, 333}},
                                    {"fc.bias", {7}},
                                    {"last", {1}}},
                                   compute);
  for (const ParameterSet::Parameter& p : set.parameters())
    fill_uniform(set.master(p.name), Rng(1, stream_of(p.name)), -1, 1);
  if (compute != DType::f32)
    for (const ParameterSet::Parameter& p : set.parameters())
      set.compute(p.name).copy_from(set.master(p.name).cast(compute));
  return set;
}
inline void draw_gradients(ParameterSet& set, uint64_t step) {
  for (const ParameterSet::Parameter& p : set.parameters())
    fill_normal(set.gradient(p.name), Rng(step + 2, stream_of(p.name)), 0, 1);
}

}  // namespace d5
