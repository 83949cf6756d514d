// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/program.hpp"

#include <algorithm>
#include <cstring>

namespace d5::onednn {
namespace {

constexpr size_t at(Pass pass) { return pass == Pass::forward ? 0 : 1; }
constexpr size_t aligned(size_t bytes) { return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes; }

template <class Attributes>
void set_deterministic(Attributes& attributes) {
  if constexpr (requires { attributes.set_deterministic(true); }) attributes.set_deterministic(true);
}

}  // namespace

Program::Program(const KernelSetup& setup)
    : fast_(setup.options.layout == LayoutChoice::fast),
      time_reorders_(setup.options.time_reorders),
      deterministic_(setup.options.deterministic),
      math_(setup.options.math),
      plain_inputs_(setup.plain_inputs),
      plain_outputs_(setup.plain_outputs),
      is_parameter_(setup.is_parameter),
      shares_gradient_(setup.shares_gradient) {}

dnnl::primitive_attr Program::attributes() const {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(math_ == Math::bf16   ? dnnl::fpmath_mode::bf16
                             : math_ == Math::tf32 ? dnnl::fpmath_mode::tf32
                                                   : dnnl::fpmath_mode::strict);
  if (deterministic_) set_deterministic(attributes);
  return attributes;
}

Operand Program::temporary(Pass pass, const Desc& desc) {
  const size_t offset = temporary_bytes_[at(pass)];
  temporary_bytes_[at(pass)] += aligned(desc.get_size());
  return {Role::temporary, offset, desc, desc};
}

Operand Program::workspace(const Desc& desc) {
  const size_t offset = workspace_bytes_;
  workspace_bytes_ += aligned(desc.get_size());
  return {Role::workspace, offset, desc, desc};
}

Operand Program::constant(const Tensor& tensor) {
  constants_.push_back(tensor);
  const Desc desc = row_major(tensor.dtype(), dims_of(tensor.shape()));
  return {Role::constant, constants_.size() - 1, desc, desc};
}

Operand Program::ones(DType type, const Dims& dims) {
  return constant(Tensor::from<float>(Shape(dims), std::vector<float>(Shape(dims).elements(), 1.0f)).cast(type));
}

bool Program::may_leave_plain(Role role, size_t index) const {
  if (!fast_ || time_reorders_) return false;
  return role == Role::input || role == Role::input_gradient ? !plain_inputs_[index] : !plain_outputs_[index];
}

// The first primitive that touches a tensor decides its layout; a parameter's gradient lies as the parameter does,
// because one pass of an optimizer goes over both.
const Program::Home& Program::home(const Operand& operand) {
  const Key key{operand.role, operand.index};
  if (const auto found = homes_.find(key); found != homes_.end()) return found->second;
  Home home{operand.plain, operand.plain, true};
  const auto value = homes_.find({Role::input, operand.index});
  if (operand.role == Role::input_gradient && is_parameter_[operand.index] && value != homes_.end()) {
    if (!value->second.is_plain) home = value->second;
  } else if (may_leave_plain(operand.role, operand.index) && !(operand.wanted == operand.plain) &&
             operand.wanted.get_data_type() == operand.plain.get_data_type()) {
    home = {operand.plain, operand.wanted, false};
  }
  return homes_.emplace(key, home).first->second;
}

Program::Step Program::reorder(const Piece& from, const Piece& to) const {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc desc(engine(), from.desc, engine(), to.desc, attributes);
  Piece source = from, target = to;
  source.name = DNNL_ARG_FROM;
  target.name = DNNL_ARG_TO;
  return {
      dnnl::reorder(desc), std::string("reorder ") + desc.impl_info_str(), desc.scratchpad_desc(), {source, target}};
}

void Program::add(Pass pass, dnnl::primitive primitive, std::string implementation, const Desc& scratchpad,
                  const std::vector<Argument>& arguments) {
  Step step{std::move(primitive), std::move(implementation), scratchpad, {}};
  std::vector<Step> after;
  for (const Argument& argument : arguments) {
    const Operand& operand = argument.operand;
    Piece piece{argument.name, operand.role, operand.index, operand.wanted};
    const bool tensor = operand.role <= Role::output_gradient;
    if (tensor) {
      const Home& place = home(operand);
      const Desc& lies = place.is_plain ? operand.plain : place.native;
      if (!(lies == operand.wanted)) {
        const Key key{operand.role, operand.index};
        auto& known = converted_[at(pass)];
        const auto found = std::ranges::find_if(
            known, [&](const auto& k) { return k.first == key && k.second.desc == operand.wanted; });
        if (!argument.written && found != known.end()) {
          piece.role = found->second.role;
          piece.index = found->second.index;
        } else {
          const Piece outside{0, operand.role, operand.index, lies};
          piece.role = Role::temporary;
          piece.index = temporary(pass, operand.wanted).index;
          if (argument.written) {
            after.push_back(reorder(piece, outside));
          } else {
            steps_[at(pass)].push_back(reorder(outside, piece));
            known.emplace_back(key, piece);
          }
        }
      }
    }
    step.pieces.push_back(std::move(piece));
  }
  steps_[at(pass)].push_back(std::move(step));
  for (Step& one : after) steps_[at(pass)].push_back(std::move(one));
}

void Program::add_copy(Pass pass, const Operand& from, const Operand& to) {
  const dnnl::reorder::primitive_desc desc(engine(), from.wanted, engine(), to.wanted, attributes());
  add(pass, desc, {reads(DNNL_ARG_FROM, from), writes(DNNL_ARG_TO, to)});
}

void Program::add_zero(Pass pass, const Operand& temporary) {
  steps_[at(pass)].push_back({{}, "zero", {}, {{0, temporary.role, temporary.index, temporary.wanted}}});
}

bool Program::may_add(const Operand& target) const {
  return target.role == Role::input_gradient && target.index < shares_gradient_.size() &&
         shares_gradient_[target.index] && !is_parameter_[target.index];
}

void Program::add_variant(dnnl::primitive adding, const Desc& scratchpad, size_t input) {
  Step& step = steps_[at(Pass::backward)].back();
  const bool direct = std::ranges::any_of(
      step.pieces, [&](const Piece& piece) { return piece.role == Role::input_gradient && piece.index == input; });
  if (!direct) return;  // it is reordered afterwards
  step.adding = std::move(adding);
  step.adding_input = input;
  if (scratchpad.get_size() > step.scratchpad.get_size()) step.scratchpad = scratchpad;
}

void Program::answer(KernelSetup& setup) const {
  KernelMemory& memory = setup.memory;
  memory.backward_inputs = std::vector<bool>(setup.inputs.size(), false);
  memory.backward_outputs = std::vector<bool>(setup.outputs.size(), false);
  memory.adds_gradient.assign(setup.inputs.size(), false);
  memory.must_in_place = in_place_;
  memory.passes_gradient.assign(setup.inputs.size(), false);
  for (const size_t input : passed_) memory.passes_gradient[input] = true;
  // Where one tensor is several inputs the plan counts on their gradients being there one after the other.
  const auto comes_before = [](const Step& step, size_t input) {
    return std::ranges::any_of(
        step.pieces, [&](const Piece& piece) { return piece.role == Role::input_gradient && piece.index < input; });
  };
  const auto& backward = steps_[at(Pass::backward)];
  for (auto step = backward.begin(); step != backward.end(); ++step) {
    for (const Piece& piece : step->pieces) {
      if (piece.role == Role::input) (*memory.backward_inputs)[piece.index] = true;
      if (piece.role == Role::output) (*memory.backward_outputs)[piece.index] = true;
    }
    const size_t input = step->adding_input;
    if (input != SIZE_MAX)
      memory.adds_gradient[input] =
          std::none_of(step, backward.end(), [&](const Step& later) { return comes_before(later, input); });
  }
  for (const auto& [key, home] : homes_) {
    if (home.is_plain) continue;
    const LayoutPtr layout = make_layout(home.plain, home.native);
    const auto [role, index] = key;
    (role == Role::input            ? setup.input_layouts
     : role == Role::output         ? setup.output_layouts
     : role == Role::input_gradient ? setup.input_gradient_layouts
                                    : setup.output_gradient_layouts)[index] = layout;
  }
}

size_t Program::scratch_bytes() const {
  size_t most = 0;
  for (const size_t pass : {0, 1}) {
    size_t pad = 0;
    for (const Step& step : steps_[pass]) pad = std::max(pad, step.scratchpad.get_size());
    most = std::max(most, temporary_bytes_[pass] + aligned(pad));
  }
  return most;
}

std::string Program::implementation() const {
  std::string text;
  for (const size_t pass : {0, 1}) {
    if (steps_[pass].empty()) continue;
    text += pass == 0 ? "forward " : "; backward ";
    for (size_t i = 0; i < steps_[pass].size(); ++i) text += (i ? " + " : "") + steps_[pass][i].implementation;
  }
  return text;
}

void* Program::pointer(const Piece& piece, Pass, const Buffers& buffers) const {
  const auto inside = [&](void* base) { return static_cast<void*>(static_cast<char*>(base) + piece.index); };
  switch (piece.role) {
    case Role::input: return buffers.inputs[piece.index];
    case Role::output: return buffers.outputs[piece.index];
    case Role::input_gradient: return buffers.input_gradients[piece.index];
    case Role::output_gradient: return buffers.output_gradients[piece.index];
    case Role::workspace: return inside(buffers.workspace);
    case Role::temporary: return inside(buffers.scratch);
    case Role::constant: return constants_[piece.index].data();
  }
  return nullptr;
}

void Program::refresh(int binding) const {
  for (const auto& derive : derived_) derive(buffers_[binding]);
}

void Program::bind(int binding, const Buffers& buffers) {
  if (!derived_.empty()) {
    if (buffers_.size() <= static_cast<size_t>(binding)) buffers_.resize(binding + 1);
    buffers_[binding] = buffers;
  }
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    auto& bindings = bound_[at(pass)];
    if (bindings.size() <= static_cast<size_t>(binding)) bindings.resize(binding + 1);
    bindings[binding].clear();
    for (const Step& step : steps_[at(pass)]) {
      const bool adds = step.adding_input < buffers.adds.size() && buffers.adds[step.adding_input];
      BoundStep bound{(adds ? step.adding : step.primitive).get(true), {}, {}};
      const auto give = [&](int name, const Desc& desc, void* data) {
        bound.memories.emplace_back(desc, engine(), data);
        bound.arguments.push_back({name, bound.memories.back().get()});
      };
      for (const Piece& piece : step.pieces) {
        void* data = pointer(piece, pass, buffers);
        if (!data && piece.role == Role::output_gradient) {  // no output of the network depends on it
          const dnnl::memory zeros(piece.desc, engine());
          std::memset(zeros.get_data_handle(), 0, piece.desc.get_size());
          bound.memories.push_back(zeros);
          bound.arguments.push_back({piece.name, zeros.get()});
          continue;
        }
        if (!data) throw Error("[onednn] {} needs a tensor that the plan does not have", step.implementation);
        give(piece.name, piece.desc, data);
      }
      if (step.scratchpad.get_size() > 0)
        give(DNNL_ARG_SCRATCHPAD, step.scratchpad, static_cast<char*>(buffers.scratch) + temporary_bytes_[at(pass)]);
      bindings[binding].push_back(std::move(bound));
    }
  }
}

// The C call: the C++ one builds an array of arguments each time. With OpenMP threads it returns when the work is done.
void Program::run(Pass pass, int binding) const {
  static const dnnl_stream_t the_stream = stream().get();
  for (const BoundStep& step : bound_[at(pass)][binding]) {
    if (!step.primitive) {
      std::memset(step.memories[0].get_data_handle(), 0, step.memories[0].get_desc().get_size());
      continue;
    }
    const dnnl_status_t status = dnnl_primitive_execute(step.primitive, the_stream,
                                                        static_cast<int>(step.arguments.size()), step.arguments.data());
    if (status != dnnl_success) check(status, "onednn: execute");
  }
}

void add_product(Program& program, Pass pass, const Operand& a, const Operand& b, const Operand& y, double scale) {
  const auto product = [&](bool adds) {
    dnnl::primitive_attr attributes = program.attributes();
    dnnl::post_ops after;
    if (scale != 1) after.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(scale), 0);
    if (adds) after.append_sum();
    attributes.set_post_ops(after);
    return dnnl::matmul::primitive_desc(engine(), a.wanted, b.wanted, y.wanted, attributes);
  };
  const std::vector<Argument> arguments{reads(DNNL_ARG_SRC, a), reads(DNNL_ARG_WEIGHTS, b), writes(DNNL_ARG_DST, y)};
  if (pass == Pass::backward && program.may_add(y))
    program.add_adding(product(false), product(true), arguments, y.index);
  else
    program.add(pass, product(false), arguments);
}

void add_scaled(Program& program, Pass pass, const Operand& from, const Operand& to, double scale) {
  if (scale == 1) return program.add_copy(pass, from, to);
  const dnnl::eltwise_forward::primitive_desc linear(engine(), dnnl::prop_kind::forward_inference,
                                                     dnnl::algorithm::eltwise_linear, from.wanted, to.wanted,
                                                     static_cast<float>(scale), 0, program.attributes());
  program.add(pass, linear, {reads(DNNL_ARG_SRC, from), writes(DNNL_ARG_DST, to)});
}

// Products with a vector of ones: oneDNN's own reduction is a plain loop for most shapes. Neighbouring dimensions of
// one kind are one; each pass sums one of them, the last first.
void add_sum(Program& program, Pass pass, DType from_type, DType to_type, const Operand& from, const Dims& from_dims,
             const Operand& to, const Dims& to_dims, double scale) {
  struct Group {
    dnnl_dim_t size;
    bool summed;
  };
  std::vector<Group> groups;
  for (size_t i = 0; i < from_dims.size(); ++i) {
    if (from_dims[i] == 1) continue;
    const bool summed = to_dims[i] == 1;
    if (!groups.empty() && groups.back().summed == summed)
      groups.back().size *= from_dims[i];
    else
      groups.push_back({from_dims[i], summed});
  }
  size_t left = static_cast<size_t>(std::ranges::count_if(groups, [](const Group& g) { return g.summed; }));
  if (left == 0) return add_scaled(program, pass, from, to, scale);
  Operand source = from;
  DType source_type = from_type;
  for (size_t g = groups.size(); g-- > 0;) {
    if (!groups[g].summed) continue;
    dnnl_dim_t outer = 1, inner = 1;
    for (size_t i = 0; i < g; ++i) outer *= groups[i].size;
    for (size_t i = g + 1; i < groups.size(); ++i) inner *= groups[i].size;
    const dnnl_dim_t size = groups[g].size;
    const bool final = --left == 0;
    const DType target_type = final ? to_type : DType::f32;
    // {outer, size} {size, 1}, or a batch of {1, size} {size, inner}
    const Dims source_dims = inner == 1 ? Dims{outer, size} : Dims{outer, size, inner};
    const Dims target_dims = inner == 1 ? Dims{outer, 1} : Dims{outer, 1, inner};
    const Operand ones = program.ones(source_type, inner == 1 ? Dims{size, 1} : Dims{1, 1, size});
    source.plain = source.wanted = row_major(source_type, source_dims);
    Operand target = final ? to : program.temporary(pass, row_major(target_type, target_dims));
    target.plain = target.wanted = row_major(target_type, target_dims);
    const double factor = final ? scale : 1;
    if (inner == 1)
      add_product(program, pass, source, ones, target, factor);
    else
      add_product(program, pass, ones, source, target, factor);
    source = target;
    source_type = target_type;
    groups[g].size = 1;
  }
}

}  // namespace d5::onednn
