// SPDX-License-Identifier: Apache-2.0
// The parameters of a plan in their ParameterSet. Private to compile_kernels.
//
// The first executable adds them, in its native layouts and in the order in which their gradients become ready:
// backward goes through the steps from the last to the first, and the first reader of a value is the last to
// contribute. One that comes later and only reads a parameter in another layout has a copy of its own.
#pragma once

#include "d5/backends/kernel_plan.hpp"

namespace d5 {

class KernelParameters {
 public:
  KernelParameters(const KernelPlan&, ParameterSet&);

  std::vector<bool> in_set;          // by value
  std::vector<size_t> copied;        // parameters that lie otherwise in the shared set: refreshed copies
  std::vector<size_t> first_reader;  // by root: a step

  bool is_copied(size_t value) const;
  Tensor shared_value(size_t value) const;  // the parameter in the shared set, row-major

 private:
  void add(size_t value);
  void join(size_t value);

  const KernelPlan& plan_;
  ParameterSet& parameters_;
};

// Elements of a native layout, padding included.
inline Index native_elements(size_t bytes, DType type) { return static_cast<Index>(bytes) * 8 / bits(type); }

}  // namespace d5
