// SPDX-License-Identifier: Apache-2.0
// What must be known before memory is laid out: which nodes are computed together, which kernel computes each step, how
// its tensors lie, which values have gradients. Private to compile_kernels.
//
// A graph of one node is level 0: its kernel chooses the layouts of everything it touches, and converting is not part
// of a step. In a network inputs and outputs are row-major, values between them lie in orders of axes that their
// kernels ask for, and a value that is wanted in another order is converted once.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "d5/backends/kernel.hpp"
#include "d5/graph/gradients.hpp"

namespace d5 {

inline constexpr size_t none = SIZE_MAX;

struct PlannedValue {
  std::string name;
  TensorSpec spec;
  bool parameter = false, constant = false, input = false, output = false, differentiable = true;
  bool kept = false;      // can be read after a run: inputs, outputs, what the options say
  bool gradient = false;  // wanted and reached by an output
  bool plain = false;     // no kernel may choose its layout
  bool sparse = false;    // its gradient is written in rows (Kernel::gradient_rows)
  bool inside = false;    // of a fused step: it never exists
  AxisOrder order = {};   // how it lies, its gradient too
  LayoutPtr layout = nullptr, gradient_layout = nullptr;
  size_t made_as = none;  // an output: the same in the order in which it was made, which has the whole gradient
  size_t root = none;     // the value whose bytes it is: itself, unless it is a view
  std::vector<size_t> readers = {};  // steps in order; one that reads it twice is there twice
  Index tiles = 1;                   // of the batch: it has the bytes of one of them

  bool fixed() const { return parameter || constant; }  // the same bytes for all slots
  size_t bytes() const {
    return (layout ? layout->bytes() : static_cast<size_t>(spec.bytes())) / static_cast<size_t>(tiles);
  }
  size_t gradient_bytes() const {
    return gradient_layout ? gradient_layout->bytes() : static_cast<size_t>(spec.bytes());
  }
};

struct PlannedStep {
  Node shown;                                        // what observers see
  std::vector<Node> nodes;                           // the head and its followers
  std::vector<size_t> members;                       // their numbers in the graph; none of them: a conversion
  std::vector<size_t> inputs, outputs;               // values; `none` where absent
  std::vector<std::vector<size_t>> follower_inputs;  // as in Follower
  std::vector<bool> wants_gradient;                  // by input
  bool arranges = true;                              // the kernel is asked for orders of axes
  std::unique_ptr<Operator> op;                      // of the head
  std::unique_ptr<Kernel> kernel;
  bool fallback = false, backward = false;
  KernelMemory memory;
  Index samples = 0;  // of a tile; 0: the whole batch

  bool is_conversion() const { return members.empty(); }
};

// Steps from begin to end run once for each tile of the batch (kernel_tiles.cpp). None do where both are 0.
struct BatchTiles {
  size_t begin = 0, end = 0;
  Index samples = 0, count = 1;
  bool has(size_t step) const { return begin <= step && step < end; }
};

class KernelPlan {
 public:
  // Error with the reason where a node has no kernel.
  KernelPlan(const Graph&, const CompileOptions&, const FindKernel&);

  std::vector<PlannedValue> values;
  std::vector<PlannedStep> steps;  // in the order in which they run
  bool alone;                      // one node: level 0
  BatchTiles tiles;

  size_t find(const std::string& value) const;  // `none` where there is none of that name
  size_t root(size_t value) const { return values[value].root; }
  KernelSetup setup(const PlannedStep&) const;

 private:
  void make_values();
  void form_steps();  // kernel_fusion.cpp
  PlannedStep single(size_t node) const;
  std::optional<size_t> next_member(const PlannedStep&) const;
  PlannedStep joined(const PlannedStep&, size_t node) const;
  void choose_orders();  // kernel_layouts.cpp
  size_t converted(size_t value, const AxisOrder&, std::vector<PlannedStep>& before);
  PlannedStep conversion(size_t from, size_t to) const;
  std::vector<AxisOrder> output_wishes(const PlannedStep&) const;
  void find_readers();
  void choose_tiles();  // kernel_tiles.cpp
  void find_tiled_values();
  bool sample_by_sample(const PlannedStep&, Index batch) const;
  bool prepare_kernels();
  bool agree_on_layouts(const std::vector<KernelSetup>&);
  void plan_less(const PlannedStep&, const std::string& reason);
  void find_sparse_gradients();

  size_t add_value(PlannedValue);
  bool may_be_view(const PlannedStep&, const AxisOrder&) const;

  const Graph& graph_;
  const CompileOptions& options_;
  CompileOptions tile_options_;
  const FindKernel& find_kernel_;
  Specs specs_;
  GradientFlow flow_;
  std::map<std::string, size_t> index_;
  std::map<std::pair<size_t, AxisOrder>, size_t> copies_;  // a value in another order
  std::vector<size_t> reads_;                              // by root: how many inputs of steps have its bytes
  std::vector<size_t> uses_;                               // by value: how many inputs of nodes it is
  std::set<size_t> apart_, row_major_;  // nodes that may not follow another; nodes that are not asked for orders
  std::set<std::string> plain_;         // values whose readers did not agree on a layout
};

// Why this node cannot run, or empty and the kernel that can.
struct FoundKernel {
  std::unique_ptr<Kernel> kernel;
  bool fallback = false;
  std::string reason;
};
FoundKernel find_kernel(const KernelSetup&, const FindKernel&);

std::string to_string(const AxisOrder&);  // "channels last", "0,2,1"

}  // namespace d5
