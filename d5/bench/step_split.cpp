// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/step_split.hpp"

#include <cstring>
#include <map>

#include "d5/core/convert.hpp"
#include "d5/graph/pieces.hpp"

namespace d5 {
namespace {

class SplitStep final : public Executable {
 public:
  SplitStep(std::unique_ptr<Executable> part, const Graph& whole, const Graph& small, Mode mode)
      : part_(std::move(part)), training_(mode == Mode::training) {
    const Specs of_whole = infer_specs(whole), of_part = infer_specs(small);
    for (const GraphInput& input : whole.inputs)
      if (!input.parameter) add(input.name, of_whole, of_part, inputs_);
    for (const std::string& name : whole.outputs) add(name, of_whole, of_part, outputs_);
    if (parts_ == 0) throw Error("[accumulate] {}: no input has a size that follows the batch", whole.name);
  }

  void forward(const Run& run) override {
    for (Index part = 0; part < parts_; ++part) {
      for (const auto& [name, value] : inputs_)
        if (value.parts > 1) part_->write(Role::value, name, of_part(value, value.all, part), run.slot);
      part_->forward(of_part(run, part));
      for (auto& [name, value] : outputs_) collect(value, part_->read(Role::value, name, run.slot), part);
      if (!training_) continue;
      for (const auto& [name, value] : outputs_)
        if (value.parts > 1 && value.seed.present())
          part_->write(Role::gradient, name, of_part(value, value.seed, part), run.slot);
      if (part + 1 < parts_) part_->backward(of_part(run, part));
    }
  }

  void backward(const Run& run) override { part_->backward(of_part(run, parts_ - 1)); }

  void write(Role role, const std::string& name, const Tensor& canonical, int slot) override {
    if (const auto input = inputs_.find(name);
        role == Role::value && input != inputs_.end() && input->second.parts > 1) {
      input->second.all = canonical.clone();
      return;
    }
    const auto output = outputs_.find(name);
    if (role != Role::gradient || output == outputs_.end()) return part_->write(role, name, canonical, slot);
    output->second.seed = canonical.clone();
    if (output->second.parts == 1) part_->write(role, name, divided(canonical), slot);
  }

  Tensor read(Role role, const std::string& name, int slot) override {
    const auto output = outputs_.find(name);
    if (output == outputs_.end()) return part_->read(role, name, slot);
    return role == Role::value ? output->second.all.clone() : output->second.seed.clone();
  }

  // Only what all parts share stays in place.
  Tensor view(Role role, const std::string& name, int slot) override {
    return inputs_.contains(name) || outputs_.contains(name) ? Tensor() : part_->view(role, name, slot);
  }

  size_t bytes() const override { return part_->bytes(); }
  Facts kernels() const override { return part_->kernels(); }
  std::string overrun() const override { return part_->overrun(); }
  std::string narrow_arithmetic(Pass pass) const override { return part_->narrow_arithmetic(pass); }
  std::optional<size_t> workspace_bytes() const override { return part_->workspace_bytes(); }

 private:
  struct Divided {
    size_t axis = 0;
    Index parts = 1;  // 1: it does not follow the batch
    Tensor all, seed;
  };

  void add(const std::string& name, const Specs& of_whole, const Specs& of_part, std::map<std::string, Divided>& list) {
    const Shape &whole = of_whole.at(name).shape, &part = of_part.at(name).shape;
    Divided value;
    for (size_t axis = 0; axis < whole.rank(); ++axis) {
      if (whole[axis] == part[axis]) continue;
      if (whole[axis] % part[axis] != 0 || (parts_ > 0 && whole[axis] / part[axis] != parts_))
        throw Error("[accumulate] '{}' is {} for the whole batch and {} for a part: that divides nothing evenly", name,
                    to_string(whole), to_string(part));
      value = {axis, whole[axis] / part[axis], {}, {}};
      parts_ = value.parts;
      samples_ = part[axis];
    }
    value.all = Tensor(of_whole.at(name).dtype, whole);
    list[name] = std::move(value);
  }

  Run of_part(Run run, Index part) const {
    run.add_gradients = run.add_gradients || part > 0;
    run.position.first_sample += static_cast<uint64_t>(part * samples_);
    return run;
  }
  static Tensor of_part(const Divided& value, const Tensor& all, Index part) {
    const Index size = all.shape()[value.axis] / value.parts;
    return value.axis == 0 ? all.slice(part * size, size) : take_range(all, value.axis, part * size, size);
  }

  Tensor divided(const Tensor& all) const {
    const Tensor result = all.clone();
    if (is_float(result.dtype()))
      for (Index i = 0; i < result.elements(); ++i)
        store_from_double(result.dtype(), result.data(), i,
                          load_as_double(result.dtype(), result.data(), i) / static_cast<double>(parts_));
    return result;
  }

  // Parts of a result by sample lie one after the other; one that does not follow the batch is a mean.
  void collect(Divided& value, const Tensor& result, Index part) const {
    if (value.parts > 1) {
      const Index outer = value.all.shape().elements(0, value.axis);
      const size_t run = result.bytes() / static_cast<size_t>(std::max<Index>(outer, 1));
      for (Index row = 0; row < outer; ++row)
        std::memcpy(static_cast<char*>(value.all.data()) + static_cast<size_t>(row * parts_ + part) * run,
                    static_cast<const char*>(result.data()) + static_cast<size_t>(row) * run, run);
      return;
    }
    if (!is_float(result.dtype()) || part == 0) {
      std::memcpy(value.all.data(), result.data(), result.bytes());
      if (!is_float(result.dtype())) return;
    }
    // A running mean in the result's own type.
    for (Index i = 0; part > 0 && i < result.elements(); ++i) {
      const double before = load_as_double(value.all.dtype(), value.all.data(), i);
      const double now = load_as_double(result.dtype(), result.data(), i);
      store_from_double(value.all.dtype(), value.all.data(), i,
                        before + (now - before) / static_cast<double>(part + 1));
    }
  }

  std::unique_ptr<Executable> part_;
  bool training_;
  Index parts_ = 0, samples_ = 0;  // of a part
  std::map<std::string, Divided> inputs_, outputs_;
};

}  // namespace

std::unique_ptr<Executable> split_step(std::unique_ptr<Executable> executable, const Graph& whole, const Graph& part,
                                       Mode mode) {
  return std::make_unique<SplitStep>(std::move(executable), whole, part, mode);
}

std::string depends_on_batch(const Graph& graph) {
  for (const Node& node : graph.nodes)
    if (node.op == "BatchNormalization" && node.attributes.integer("training_mode", 0) != 0)
      return fmt::format("'{}' normalises by the statistics of a part of the batch, not of the whole", node.name);
  return {};
}

}  // namespace d5
