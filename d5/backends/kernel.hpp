// SPDX-License-Identifier: Apache-2.0
// One (backend, operator). "My faster Conv" is a Kernel, in one file that ends with
//   D5_REGISTER_KERNEL(onednn, "Conv", "mine", MyConv);        built-in ones are named "builtin"
// Calls: why_not; then prepare once; then bind once per binding; then forward and backward any number of times.
//
// A binding is a set of buffers. Usually there is one per slot; where gradients may be added there is a second one per
// slot whose gradients of parameters lead to scratch. Forward runs on the first, backward on either: what backward
// needs from forward lies in Buffers::workspace (or is kept under Buffers::slot), never under the number of the
// binding.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "d5/backends/backend.hpp"
#include "d5/core/layout.hpp"

namespace d5 {

// How the axes of a tensor follow each other in memory, outermost first: {0, 2, 3, 1} is channels last. Empty: as in
// its shape, row-major.
using AxisOrder = std::vector<size_t>;
AxisOrder channels_last_order(size_t rank);  // empty below rank 3
// Whether the elements lie in the same places: axes of one element may be anywhere.
bool same_places(const AxisOrder&, const AxisOrder&, const Shape&);
// Sizes as they lie, from the outermost to the innermost.
Shape lying(const Shape&, const AxisOrder&);
Shape with_samples(const Shape&, Index);  // another first size
// An order of axes as a layout, for conversions outside of steps.
LayoutPtr order_layout(const TensorSpec&, const AxisOrder&);

// A node that is computed in the same call, behind the ones before it.
struct Follower {
  static constexpr size_t result = SIZE_MAX;      // what was computed so far
  static constexpr size_t absent = SIZE_MAX - 1;  // an optional input
  const Node& node;
  std::vector<size_t> inputs;  // by input of the node: one of KernelSetup::inputs, `result` or `absent`
};

// What a prepared kernel does with memory. Without an answer the plan takes the worst: backward reads everything, and
// nothing may lie where something else lies. Lists are by input; shorter ones end with false.
struct KernelMemory {
  std::optional<std::vector<bool>> backward_inputs, backward_outputs;  // what backward reads
  std::vector<bool> in_place;                                          // output 0 may lie where this input lies
  std::optional<size_t> must_in_place;                                 // it has to lie where this one lies, which dies
  std::vector<bool> passes_gradient;    // the gradient is that of output 0: nothing is computed
  std::vector<size_t> same_gradient;    // the gradient is that of this input before it; SIZE_MAX: its own
  std::vector<bool> gradient_in_place;  // the gradient may lie where that of output 0 lies
  std::vector<bool> adds_gradient;      // backward can add to the gradient (Buffers::adds)
  size_t most_contributions = 1;        // how many summands of output 0's gradient backward can read
};

// What a kernel learns before the first step, and what it answers.
struct KernelSetup {
  const Node& node;
  const Operator& op;
  std::vector<TensorSpec> inputs, outputs;  // with followers: those of all members that come from or go elsewhere
  const CompileOptions& options;
  std::vector<bool> wants_gradient;  // by input; all false: backward is never called
  std::vector<bool> is_parameter;    // by input; constants too: the same over many steps
  // Values and gradients that someone else reads too, or that a neighbour has in another layout: the kernel may not
  // choose a layout for them in prepare().
  std::vector<bool> plain_inputs, plain_outputs;
  bool in_network = false;  // other steps run around it: only then KernelMemory and arrange() matter
  std::vector<Follower> followers = {};
  // By input: nobody reads it after this call, so that the result may take its bytes.
  std::vector<bool> dies = {};
  // By input: others contribute to its gradient, too. Of output 0: how many contributions may reach its gradient.
  std::vector<bool> shares_gradient = {};
  size_t contributions = 1;

  // How the tensors lie, gradients like their values. On entry to arrange() the inputs as they come, and of an output
  // what its readers would like; it answers what the kernel wants. Then they are what prepare() finds.
  std::vector<AxisOrder> input_orders = {}, output_orders = {};
  // Answer of arrange(): output 0 is input 0 seen otherwise, and nothing is computed.
  bool is_view = false;

  // Answers of prepare(), by input or output; null is as the order says. A gradient may differ from its value, except
  // that of a parameter.
  std::vector<LayoutPtr> input_layouts = {}, output_layouts = {}, input_gradient_layouts = {},
                         output_gradient_layouts = {};
  KernelMemory memory = {};

  bool training() const;
  AxisOrder input_order(size_t i) const { return i < input_orders.size() ? input_orders[i] : AxisOrder{}; }
  AxisOrder output_order(size_t i) const { return i < output_orders.size() ? output_orders[i] : AxisOrder{}; }
};

// Bound memory, in the layouts the kernel asked for; null where absent.
struct Buffers {
  int slot = 0;
  std::vector<void*> inputs, outputs, input_gradients, output_gradients;
  void* workspace = nullptr;               // the slot's own: what forward leaves for backward, or refresh for forward
  void* scratch = nullptr;                 // shared with other nodes: free again when the call returns
  const Position* position = nullptr;      // the slot's own: set anew before every forward
  std::vector<bool> adds = {};             // by input: backward adds to the gradient; empty: it writes all of them
  std::vector<void*> more_gradients = {};  // further summands of output 0's gradient
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::optional<std::string> why_not(const KernelSetup&) const { return {}; }
  // Whether it computes the last follower in the same call, with those before it.
  virtual bool fuses(const KernelSetup&) const { return false; }
  // In a network: which orders of axes it wants. The default is row-major for everything.
  virtual void arrange(KernelSetup&) const;
  virtual void prepare(KernelSetup&) {}
  virtual void bind(int binding, const Buffers&) = 0;
  // Parameters or constants were written: what was derived from them (in the workspace) is made anew.
  virtual void refresh(int /*binding*/) {}
  virtual void forward(int binding) = 0;
  virtual void backward(int binding);  // writes (not adds) the wanted gradients; default: Error
  // With CompileOptions::sparse_gradients: the gradient of this input is written in some of its rows alone (slices
  // along the first axis), those that gradient_rows names after backward, in order. The others are zero and not
  // written.
  virtual bool has_sparse_gradient(size_t /*input*/) const { return false; }
  virtual std::span<const Index> gradient_rows(int /*slot*/, size_t /*input*/) const { return {}; }
  virtual std::string implementation() const = 0;  // as the library names it: "brgemm:avx512_core"
  virtual size_t workspace_bytes() const { return 0; }
  virtual size_t scratch_bytes() const { return 0; }
};

struct kernels {
  static constexpr const char* kind = "kernel";
  struct Entry {
    std::function<std::unique_ptr<Kernel>()> make;
  };
  template <class T>
  static Entry entry() {
    return {[]() -> std::unique_ptr<Kernel> { return std::make_unique<T>(); }};
  }
};
#define D5_REGISTER_KERNEL(backend, op, name, Type) D5_REGISTER(kernels, #backend ":" op ":" name, Type)

// What a kernel that runs the operator's own loops calls itself: it is no second opinion.
inline constexpr std::string_view oracle_name = "reference:double";

// The kernel of that name for this backend and operator (or for its operator "*": any), or null.
std::unique_ptr<Kernel> make_kernel(const std::string& backend, const std::string& op, const std::string& name);
std::vector<std::string> kernel_names(const std::string& backend, const std::string& op);
// Why no operator of the graph has a kernel of that name here: another backend or operator has it, so that a comparison
// over several goes on. UsageError with the legal names where nobody has it.
std::optional<std::string> why_not_named(const Graph&, const std::string& name, std::string_view backend);

// Runs a graph node by node through kernels: what `reference` and `onednn` share. `find` gives the kernel of a
// node (null: none, which is an Error unless options.fallback says reference). Parameters live in the ParameterSet,
// added in the order in which their gradients become ready; those of a type that a set cannot hold (f64, integers) and
// everything else in one allocation of the executable. Run::add_gradients adds to the gradients of parameters; those of
// data inputs belong to a slot and are written.
using FindKernel = std::function<std::unique_ptr<Kernel>(const Node&)>;
// The kernel that options.kernel names where the operator has one of that name, else the built-in one.
FindKernel kernel_finder(const std::string& backend, const CompileOptions&);
std::unique_ptr<Executable> compile_kernels(const Graph&, ParameterSet&, const CompileOptions&, const FindKernel&);
// UsageError where no backend that is open has a kernel named options.kernel, for whatever operator.
std::optional<std::string> why_not_kernels(const Graph&, const CompileOptions&, const FindKernel&,
                                           std::string_view backend);

}  // namespace d5
