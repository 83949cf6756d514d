// SPDX-License-Identifier: Apache-2.0
// Which buffers the steps of a plan need, how long each lives, and where gradients go. Private to compile_kernels.
//
// Time: step s of n runs forward at s and backward at 2 n - 1 - s. A gradient is a list of buffers whose sum it is:
// each reader of a value adds one, passes on one that is there already, or adds to one in place. When the step that
// made the value runs backward, its kernel reads all of them, or they are summed first.
//
// Steps may be computed again (kernel_recompute.cpp): steps form segments, and before the first step of a segment runs
// backward, some steps of the segment run forward once more. Their results live twice, in the same place: while forward
// reads them, and from then on until backward has.
#pragma once

#include "d5/backends/kernel_plan.hpp"
#include "d5/graph/memory_plan.hpp"

namespace d5 {

struct PlannedBuffer {
  std::string name;  // "gradient of h"
  BufferLife life;
  bool fixed = false;  // one for all slots: parameters outside of the set, constants
};

struct GradientSum {
  std::vector<size_t> parts;
  size_t target;  // a buffer; may be one of the parts
  size_t value;   // whose gradient it is
};

// What backward of a step reads and writes, by buffer.
struct GradientUse {
  std::vector<GradientSum> before, after;
  std::vector<std::vector<size_t>> outputs;  // by output: the summands of its gradient; empty: it has none
  std::vector<size_t> inputs;                // by input; `none`: not wanted, passed on, or a parameter's
  std::vector<bool> adds;                    // by input
  bool runs = false;                         // the kernel has something to compute
};

// By step; empty: nothing is computed again.
struct Recomputation {
  std::vector<size_t> segment;  // its number, from the first to the last
  std::vector<bool> again;
  bool any() const;
};

// When step s runs: forward, once more (`none`: not), backward.
struct StepTimes {
  StepTimes(size_t steps, const Recomputation&);
  std::vector<size_t> forward, again, backward;
};

struct KernelBuffers {
  std::vector<PlannedBuffer> buffers;
  std::vector<size_t> values;      // by value (of its root): its buffer; none: in the set, or it has no bytes
  std::vector<size_t> gradients;   // by value: where its whole gradient can be read; none: nowhere
  std::vector<size_t> seeds;       // by value: where the gradient of an output is written
  std::vector<size_t> workspaces;  // by step
  std::vector<size_t> scratches;   // by step
  std::vector<GradientUse> uses;   // by step
  Recomputation recomputation;
};

// `in_set`: by value, those whose bytes are in the ParameterSet.
KernelBuffers plan_buffers(const KernelPlan&, const CompileOptions&, const std::vector<bool>& in_set,
                           const Recomputation& = {});
// The same with as little computed again as brings the arena down to so many bytes; where nothing does, with the
// smallest arena.
KernelBuffers plan_buffers_within(const KernelPlan&, const CompileOptions&, const std::vector<bool>& in_set,
                                  size_t bytes);  // kernel_recompute.cpp

}  // namespace d5
