// SPDX-License-Identifier: Apache-2.0
// What must be known before memory is laid out: which values have gradients, who contributes to each, which kernel
// computes each node and in which layouts. Private to compile_kernels.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "d5/backends/kernel.hpp"

namespace d5 {

struct PlannedValue {
  TensorSpec spec;
  bool parameter = false, constant = false, output = false, differentiable = true;
  bool gradient = false;        // wanted and reached by an output
  bool plain = false;           // row-major is a must
  bool sparse = false;          // its gradient is written in rows (Kernel::gradient_rows)
  std::vector<size_t> readers;  // nodes in order; one that reads it twice is there twice
  LayoutPtr layout, gradient_layout;

  size_t bytes() const { return layout ? layout->bytes() : static_cast<size_t>(spec.bytes()); }
  size_t gradient_bytes() const {
    return gradient_layout ? gradient_layout->bytes() : static_cast<size_t>(spec.bytes());
  }
};

struct PlannedNode {
  std::unique_ptr<Operator> op;
  std::unique_ptr<Kernel> kernel;
  bool fallback = false;
  bool backward = false;             // some output has a gradient
  std::vector<bool> wants_gradient;  // by input
};

class KernelPlan {
 public:
  // Error with the reason where a node has no kernel.
  KernelPlan(const Graph&, const CompileOptions&, const FindKernel&);

  std::map<std::string, PlannedValue> values;
  std::vector<PlannedNode> nodes;  // as in the graph

 private:
  void find_gradients(const Graph&, const CompileOptions&);
  void choose_kernels(const Graph&, const CompileOptions&, const FindKernel&);
  bool agree_on_layouts(const Graph&, const std::vector<KernelSetup>&);
  void find_sparse_gradients(const Graph&);
  KernelSetup setup(const Graph&, const CompileOptions&, size_t node) const;
};

// Why this node cannot run, or empty and the kernel that can.
struct FoundKernel {
  std::unique_ptr<Kernel> kernel;
  bool fallback = false;
  std::string reason;
};
FoundKernel find_kernel(const KernelSetup&, const FindKernel&);

}  // namespace d5
