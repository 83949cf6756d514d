// SPDX-License-Identifier: Apache-2.0
// The primitives of one node (and of those that follow it in the same call), in order, for each pass. A kernel says
// which tensors each primitive reads and writes, how they look row-major and in which layout the primitive wants them;
// the program decides where each tensor is at home and adds a reorder wherever a primitive wants something else.
// Everything is prepared: a step only executes.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "d5/backends/onednn/layout.hpp"

namespace d5::onednn {

enum class Role { input, output, input_gradient, output_gradient, workspace, temporary, constant };

struct Operand {
  Role role;
  size_t index;
  Desc plain;   // the tensor as it lies (row-major, or in another order of axes), as the primitive sees it: collapsed,
                // or transposed by strides
  Desc wanted;  // what the primitive takes; another element type is legal, too
};
inline Operand input(size_t i, const Desc& plain, const Desc& wanted) { return {Role::input, i, plain, wanted}; }
inline Operand input(size_t i, const Desc& plain) { return {Role::input, i, plain, plain}; }
inline Operand output(size_t i, const Desc& plain, const Desc& wanted) { return {Role::output, i, plain, wanted}; }
inline Operand output(size_t i, const Desc& plain) { return {Role::output, i, plain, plain}; }
inline Operand input_gradient(size_t i, const Desc& plain, const Desc& wanted) {
  return {Role::input_gradient, i, plain, wanted};
}
inline Operand input_gradient(size_t i, const Desc& plain) { return {Role::input_gradient, i, plain, plain}; }
inline Operand output_gradient(size_t i, const Desc& plain, const Desc& wanted) {
  return {Role::output_gradient, i, plain, wanted};
}
inline Operand output_gradient(size_t i, const Desc& plain) { return {Role::output_gradient, i, plain, plain}; }

struct Argument {
  int name;  // DNNL_ARG_...
  Operand operand;
  bool written;
};
inline Argument reads(int name, Operand operand) { return {name, std::move(operand), false}; }
inline Argument writes(int name, Operand operand) { return {name, std::move(operand), true}; }

class Program {
 public:
  explicit Program(const KernelSetup&);

  // Of every primitive: scratch memory is ours, arithmetic is what the case says.
  dnnl::primitive_attr attributes() const;
  // May a primitive choose the layout of this tensor?
  bool chooses_input(size_t i) const { return fast_ && !plain_inputs_[i]; }
  bool chooses_output(size_t i) const { return fast_ && !plain_outputs_[i]; }

  Operand temporary(Pass, const Desc&);  // lives for one pass
  Operand workspace(const Desc&);        // from forward to backward
  Operand constant(const Tensor&);       // row-major
  Operand ones(DType, const Dims&);

  template <class PrimitiveDesc>
  void add(Pass pass, const PrimitiveDesc& desc, const std::vector<Argument>& arguments) {
    add(pass, dnnl::primitive(desc.get()), desc.impl_info_str(), desc.scratchpad_desc(), arguments);
  }
  void add_copy(Pass, const Operand& from, const Operand& to);
  void add_zero(Pass, const Operand& temporary);  // all of it, padding too
  // A backward step that writes this input's gradient, with another that adds to it where the plan asks for that.
  bool may_add(const Operand& target) const;
  template <class PrimitiveDesc>
  void add_adding(const PrimitiveDesc& writing, const PrimitiveDesc& adding, const std::vector<Argument>& arguments,
                  size_t input) {
    add(Pass::backward, writing, arguments);
    add_variant(dnnl::primitive(adding.get()), adding.scratchpad_desc(), input);
  }
  void must_take_the_place_of(size_t input) { in_place_ = input; }  // output 0
  void passes_gradient(size_t input) { passed_.push_back(input); }  // that of output 0, in a network
  // Made from parameters, before the first forward and after they changed.
  void derive(std::function<void(const Buffers&)> f) { derived_.push_back(std::move(f)); }

  void answer(KernelSetup&) const;  // the layouts of all tensors
  bool gives(size_t output) const { return homes_.contains({Role::output, output}); }
  size_t workspace_bytes() const { return workspace_bytes_; }
  size_t scratch_bytes() const;
  std::string implementation() const;

  void bind(int binding, const Buffers&);
  void refresh(int binding) const;
  void run(Pass, int binding) const;  // no allocation, no copy of ours

 private:
  struct Piece {  // an argument with its memory
    int name;
    Role role;
    size_t index;
    Desc desc;
  };
  struct Step {
    dnnl::primitive primitive;  // empty: add_zero
    std::string implementation;
    Desc scratchpad;
    std::vector<Piece> pieces;
    dnnl::primitive adding = {};  // instead, where the gradient of adding_input is added to
    size_t adding_input = SIZE_MAX;
  };
  struct BoundStep {
    dnnl_primitive_t primitive;  // null: the first memory becomes zero
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  struct Home {  // where a tensor lives between the primitives
    Desc plain, native;
    bool is_plain;
  };
  using Key = std::pair<Role, size_t>;

  void add(Pass, dnnl::primitive, std::string implementation, const Desc& scratchpad, const std::vector<Argument>&);
  void add_variant(dnnl::primitive, const Desc& scratchpad, size_t input);
  const Home& home(const Operand&);
  bool may_leave_plain(Role, size_t) const;
  void* pointer(const Piece&, Pass, const Buffers&) const;
  Step reorder(const Piece& from, const Piece& to) const;

  bool fast_, time_reorders_, deterministic_;
  Math math_;
  std::vector<bool> plain_inputs_, plain_outputs_, is_parameter_, shares_gradient_;
  std::map<Key, Home> homes_;
  std::array<std::vector<Step>, 2> steps_;
  std::array<std::vector<std::pair<Key, Piece>>, 2> converted_;  // inputs of a pass that were reordered already
  std::array<size_t, 2> temporary_bytes_{};
  size_t workspace_bytes_ = 0;
  std::optional<size_t> in_place_;
  std::vector<size_t> passed_;
  std::vector<Tensor> constants_;
  std::vector<std::function<void(const Buffers&)>> derived_;
  std::vector<Buffers> buffers_;                              // by binding, where something is derived
  std::array<std::vector<std::vector<BoundStep>>, 2> bound_;  // by pass, binding
};

// to = scale * sum of `from` over the dimensions that are 1 in to_dims; both row-major, a copy where there is none.
void add_sum(Program&, Pass, DType from_type, DType to_type, const Operand& from, const Dims& from_dims,
             const Operand& to, const Dims& to_dims, double scale = 1);
// to = scale * from, of the same dimensions and type.
void add_scaled(Program&, Pass, const Operand& from, const Operand& to, double scale);
// y = scale * a b for matrices (or batches of them); the descriptors of the operands say how they lie.
void add_product(Program&, Pass, const Operand& a, const Operand& b, const Operand& y, double scale = 1);

}  // namespace d5::onednn
