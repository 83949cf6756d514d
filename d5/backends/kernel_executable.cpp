// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "d5/backends/kernel_memory.hpp"
#include "d5/backends/kernel_parameters.hpp"
#include "d5/backends/kernel_store.hpp"
#include "d5/backends/memory_limit.hpp"
#include "d5/backends/piecewise.hpp"
#include "d5/core/convert.hpp"
#include "d5/core/guard.hpp"
#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

// A contribution to the gradient of a parameter that was written beside it: to += from, or to = from where only the
// type differs.
struct Contribution {
  DType from_type, to_type;
  const void* from;
  void* to;
  Index elements;
  bool add;
};

template <class T>
void add_elements(const Contribution& c) {
  parallel_for(c.elements, 1 << 15, [&c](Index first, Index last) {
    const T* from = static_cast<const T*>(c.from);
    T* to = static_cast<T*>(c.to);
    for (Index i = first; i < last; ++i) to[i] = T(to[i] + from[i]);
  });
}

void apply(const Contribution& c) {
  if (!c.add) return convert(c.from_type, c.from, c.to_type, c.to, c.elements);
  if (c.from_type == c.to_type) switch (c.to_type) {
      case DType::f32: return add_elements<float>(c);
      case DType::f64: return add_elements<double>(c);
      case DType::bf16: return add_elements<BFloat16>(c);
      case DType::f16: return add_elements<Half>(c);
      default: break;
    }
  for (Index i = 0; i < c.elements; ++i)
    store_from_double(c.to_type, c.to, i, load_as_double(c.to_type, c.to, i) + load_as_double(c.from_type, c.from, i));
}

// Sums of gradients run as the backend's Sum.
std::unique_ptr<Kernel> make_sum(const PlannedValue& value, size_t parts, int slots, const FindKernel& find) {
  const CompileOptions options{.slots = slots, .layout = LayoutChoice::plain};
  const Node node{.op = "Sum", .name = "gradient of " + value.name};
  const auto op = make_operator(node);
  const Index elements = native_elements(value.gradient_bytes(), value.spec.dtype);
  const TensorSpec spec{value.spec.dtype, {elements}};
  KernelSetup setup{.node = node,
                    .op = *op,
                    .inputs = std::vector<TensorSpec>(parts, spec),
                    .outputs = {spec},
                    .options = options,
                    .wants_gradient = std::vector<bool>(parts, false),
                    .is_parameter = std::vector<bool>(parts, false),
                    .plain_inputs = std::vector<bool>(parts, true),
                    .plain_outputs = {true}};
  setup.input_layouts.resize(parts);
  setup.input_gradient_layouts.resize(parts);
  setup.output_layouts.resize(1);
  setup.output_gradient_layouts.resize(1);
  FoundKernel found = find_kernel(setup, find);
  if (!found.reason.empty()) found.kernel = make_kernel("reference", "Sum", "builtin");
  found.kernel->prepare(setup);
  return std::move(found.kernel);
}

class KernelExecutable final : public Executable {
 public:
  KernelExecutable(const Graph& graph, ParameterSet& parameters, const CompileOptions& options, const FindKernel& find)
      : graph_(graph),
        options_(options),
        plan_(graph_, options_, find),
        parameters_(parameters),
        joined_(plan_, parameters_),
        in_set_(joined_.in_set),
        buffers_(options_.recompute_above > 0 ? plan_buffers_within(plan_, options_, in_set_, room_to_share(find))
                                              : plan_buffers(plan_, options_, in_set_)),
        memory_(std::make_shared<LimitedMemory>(graph.name, options.memory_limit)),
        store_(buffers_, plan_.alone || options_.keep_all, options_.slots, memory_) {
    find_again();
    for (const auto& [name, tensor] : graph_.constants) write(Role::value, name, tensor, 0);
    make_sums(find);
    bind();
  }

  void forward(const Run& run) override {
    check(run.slot);
    if (refreshed_[run.slot] != parameters_.version() + writes_) refresh(run.slot);
    positions_[run.slot] = run.position;
    const BatchTiles& tiles = plan_.tiles;
    const auto steps = [&](size_t begin, size_t end, int binding) {
      for (size_t s = begin; s < end; ++s) {
        const PlannedStep& step = plan_.steps[s];
        if (run.observer) run.observer->node_begin(step.shown, Pass::forward);
        step.kernel->forward(binding);
        if (run.observer) run.observer->node_end(step.shown, Pass::forward);
      }
    };
    steps(0, tiles.begin, run.slot);
    for (Index i = 0; i < tiles.count; ++i) steps(tiles.begin, tiles.end, tile_binding(run.slot, i));
    steps(tiles.end, plan_.steps.size(), run.slot);
  }

  void backward(const Run& run) override {
    check(run.slot);
    if (options_.mode != Mode::training) throw Error("[executable] compiled for inference: there is no backward");
    if (run.add_gradients && has_sparse_gradients_) throw Error("[executable] sparse gradients cannot be added up");
    if (run.add_gradients && !bound_to_add_) bind_to_add();
    const int binding = run.slot + (run.add_gradients ? options_.slots : 0);
    for (size_t s = plan_.steps.size(); s-- > 0;) {
      const PlannedStep& step = plan_.steps[s];
      const GradientUse& use = buffers_.uses[s];
      for (const size_t again : again_[s]) {
        if (run.observer) run.observer->node_begin(plan_.steps[again].shown, Pass::backward);
        plan_.steps[again].kernel->forward(run.slot);
        if (run.observer) run.observer->node_end(plan_.steps[again].shown, Pass::backward);
      }
      if (!use.runs && use.before.empty() && use.after.empty()) continue;
      if (run.observer) run.observer->node_begin(step.shown, Pass::backward);
      for (const auto& sum : sums_[s].before) sum->forward(run.slot);
      if (use.runs) step.kernel->backward(binding);
      for (const Contribution& c : contributions_[binding][s]) apply(c);
      for (const auto& sum : sums_[s].after) sum->forward(run.slot);
      if (!run.observer) continue;
      run.observer->node_end(step.shown, Pass::backward);
      for (Gradient gradient : ready_[s]) {
        if (has_sparse_gradients_) gradient.rows = rows_of(plan_.find(std::string(gradient.parameter)), run.slot);
        run.observer->gradient_ready(gradient);
      }
    }
  }

  void write(Role role, const std::string& name, const Tensor& canonical, int slot) override {
    const size_t v = known(role, name, slot);
    const PlannedValue& value = plan_.values[v];
    if (canonical.dtype() != value.spec.dtype || !(canonical.shape() == value.spec.shape))
      throw Error("[executable] '{}' is {}; {} was given", name, to_string(value.spec),
                  to_string(TensorSpec{canonical.dtype(), canonical.shape()}));
    if (role == Role::gradient) {
      void* to = buffers_.seeds[v] != none ? store_.at(buffers_.seeds[v], slot) : gradient_pointer(v, slot);
      if (gradient_type(v) == value.spec.dtype) return store(value.gradient_layout, canonical, to);
      const Tensor native(value.spec.dtype, {native_elements(value.gradient_bytes(), value.spec.dtype)});
      store(value.gradient_layout, canonical, native.data());
      return convert(value.spec.dtype, native.data(), gradient_type(v), to, native.elements());
    }
    const bool copied = joined_.is_copied(v);
    if (copied)
      store(parameters_.at(name).native, canonical, parameters_.compute(name).data());
    else
      store(value.layout, canonical, value_pointer(v, slot));
    if (value.fixed() && !in_set_[v]) ++writes_;
    if (!in_set_[v] && !copied) return;
    parameters_.touch();
    const Tensor compute = parameters_.compute(name), master = parameters_.master(name);
    if (compute.data() != master.data())
      convert(compute.dtype(), compute.data(), DType::f32, master.data(), compute.elements());
  }

  Tensor read(Role role, const std::string& name, int slot) override {
    size_t v = known(role, name, slot);
    const bool gradient = role == Role::gradient;
    if (!gradient && joined_.is_copied(v)) return joined_.shared_value(v);
    if (const size_t made = plan_.values[v].made_as; gradient && made != none && buffers_.gradients[made] != none)
      v = made;
    const PlannedValue& value = plan_.values[v];
    const Tensor canonical(value.spec.dtype, value.spec.shape);
    const void* from = gradient ? gradient_pointer(v, slot) : value_pointer(v, slot);
    if (gradient && value.sparse) return dense(canonical, from, rows_of(v, slot));
    Tensor native;
    if (gradient && gradient_type(v) != value.spec.dtype) {
      native = Tensor(value.spec.dtype, {native_elements(value.gradient_bytes(), value.spec.dtype)});
      convert(gradient_type(v), from, value.spec.dtype, native.data(), native.elements());
      from = native.data();
    }
    if (const LayoutPtr& layout = gradient ? value.gradient_layout : value.layout)
      layout->to_plain(from, canonical);
    else
      std::memcpy(canonical.data(), from, canonical.bytes());
    return canonical;
  }

  Tensor view(Role role, const std::string& name, int slot) override {
    const size_t v = known(role, name, slot);
    const PlannedValue& value = plan_.values[v];
    const bool gradient = role == Role::gradient;
    if (gradient ? value.gradient_layout : value.layout) return {};
    if (gradient && value.sparse) return {};  // what is not a row of it is undefined
    return Tensor::view(gradient ? gradient_type(v) : value.spec.dtype, value.spec.shape,
                        gradient ? gradient_pointer(v, slot) : value_pointer(v, slot), store_.owner());
  }

  size_t bytes() const override { return store_.bytes() + beside_bytes_ + most_scratch_; }

  std::string overrun() const override {
    const std::string found = store_.overrun([this](const std::string& buffer) { return writers_of(buffer); });
    return found.empty() ? overrun_of_parameters() : found;
  }

  std::optional<size_t> workspace_bytes() const override {
    size_t workspaces = 0, scratch = 0;
    for (const PlannedStep& step : plan_.steps) {
      workspaces += step.kernel->workspace_bytes();
      scratch = std::max(scratch, step.kernel->scratch_bytes());
    }
    return workspaces + scratch;
  }

  Facts kernels() const override {
    Facts facts;
    const std::vector<bool>& again = buffers_.recomputation.again;
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      facts.emplace_back(plan_.steps[s].shown.name,
                         (plan_.steps[s].fallback ? "fallback: " : "") + plan_.steps[s].kernel->implementation() +
                             (!again.empty() && again[s] ? ", computed again" : "") + tile_note(plan_.steps[s]));
    return facts;
  }

 private:
  std::string tile_note(const PlannedStep& step) const {
    return step.samples > 0 ? fmt::format(", {} tiles of {} samples", plan_.tiles.count, step.samples) : "";
  }

  struct Sums {
    std::vector<std::unique_ptr<Kernel>> before, after;
  };

  void* value_pointer(size_t v, int slot) const {
    const size_t r = plan_.root(v);
    return in_set_[r] ? parameters_.compute(plan_.values[r].name).data() : store_.at(buffers_.values[r], slot);
  }
  void* gradient_pointer(size_t v, int slot) const {
    const size_t r = plan_.root(v);
    return in_set_[r] ? parameters_.gradient(plan_.values[r].name).data() : store_.at(buffers_.gradients[r], slot);
  }
  DType gradient_type(size_t v) const {
    return in_set_[plan_.root(v)] ? parameters_.compute_dtype() : plan_.values[v].spec.dtype;
  }

  // The rows of a sparse gradient that the last backward of this slot wrote; empty where it is dense.
  std::span<const Index> rows_of(size_t v, int slot) const {
    const PlannedValue& value = plan_.values[v];
    if (!value.sparse) return {};
    const PlannedStep& step = plan_.steps[value.readers.front()];
    return step.kernel->gradient_rows(slot,
                                      static_cast<size_t>(std::ranges::find(step.inputs, v) - step.inputs.begin()));
  }

  static Tensor dense(const Tensor& canonical, const void* rows_from, std::span<const Index> rows) {
    canonical.fill_bytes(0);
    if (canonical.elements() == 0) return canonical;
    const size_t row_bytes = canonical.bytes() / static_cast<size_t>(canonical.shape()[0]);
    for (const Index row : rows) {
      const size_t at = static_cast<size_t>(row) * row_bytes;
      std::memcpy(static_cast<char*>(canonical.data()) + at, static_cast<const char*>(rows_from) + at, row_bytes);
    }
    return canonical;
  }

  static void store(const LayoutPtr& layout, const Tensor& canonical, void* to) {
    if (layout)
      layout->from_plain(canonical, to);
    else
      std::memcpy(to, canonical.data(), canonical.bytes());
  }

  // Parameters lie side by side in their set: what rounds each up to a whole line stays zero, and the regions have
  // guards of their own where the set's memory is guarded.
  std::string overrun_of_parameters() const {
    if (parameters_.elements() == 0) return {};
    for (const auto& [region, tensor] : {std::pair{"", parameters_.computes(parameters_.all())},
                                         {"gradient of ", parameters_.gradients(parameters_.all())}}) {
      const auto& all = parameters_.parameters();
      if (const std::string how = d5::overrun(tensor); !how.empty())
        return fmt::format("{} wrote {} of the parameters", writers_of(all.back().name), how);
      const auto* bytes = static_cast<const unsigned char*>(tensor.data());
      for (size_t i = 0; i < all.size(); ++i) {
        const Index end = i + 1 < all.size() ? all[i + 1].offset : parameters_.elements();
        const auto first = static_cast<size_t>(storage_bytes(tensor.dtype(), all[i].offset + all[i].padded_elements));
        const auto last = static_cast<size_t>(storage_bytes(tensor.dtype(), end));
        for (size_t at = first; at < last; ++at)
          if (bytes[at] != 0)
            return fmt::format("{} wrote byte {} beyond the end of {}{}", writers_of(all[i].name), at - first + 1,
                               region, all[i].name);
      }
    }
    return {};
  }

  // The steps that have this buffer, with their kernels.
  std::string writers_of(const std::string& buffer) const {
    const size_t v = plan_.find(buffer.starts_with("gradient of ") ? buffer.substr(12) : buffer);
    std::string text;
    for (const PlannedStep& step : plan_.steps) {
      const auto has = [&](const std::vector<size_t>& list) { return std::ranges::find(list, v) != list.end(); };
      if (v != none ? !has(step.inputs) && !has(step.outputs) : buffer != "the workspace of " + step.shown.name)
        continue;
      text += fmt::format("{}{} ({})", text.empty() ? "" : " or ", step.shown.name, step.kernel->implementation());
    }
    return text.empty() ? "a kernel" : text;
  }

  void check(int slot) const {
    if (slot < 0 || slot >= options_.slots)
      throw Error("[executable] slot {} was asked for; legal are 0 to {}", slot, options_.slots - 1);
  }

  size_t known(Role role, const std::string& name, int slot) const {
    check(slot);
    const size_t v = plan_.find(name);
    if (v == none) {
      std::vector<std::string> legal;
      for (const PlannedValue& value : plan_.values) legal.push_back(value.name);
      fail_unknown("[executable]", "value", name, legal);
    }
    const PlannedValue& value = plan_.values[v];
    if (!value.kept && !value.fixed())
      throw Error("[executable] '{}' is not kept after a run: its bytes are used again. CompileOptions::keep keeps it",
                  name);
    if (role == Role::gradient && (!value.gradient || (!in_set_[v] && buffers_.gradients[v] == none)))
      throw Error("[executable] '{}' has no gradient in this plan: not asked for, or no output depends on it", name);
    return v;
  }

  void refresh(int slot) {
    for (const size_t v : joined_.copied)
      store(plan_.values[v].layout, joined_.shared_value(v), store_.at(buffers_.values[v], 0));
    for (const PlannedStep& step : plan_.steps)  // tiles share a workspace
      step.kernel->refresh(step.samples > 0 ? tile_binding(slot, 0) : slot);
    refreshed_[slot] = parameters_.version() + writes_;
  }

  // Of what may be taken, what is left for the arena: beside it lie gradients of parameters that several steps
  // contribute to, and what sums of gradients need.
  size_t room_to_share(const FindKernel& find) const {
    if (options_.mode != Mode::training) return options_.recompute_above;
    size_t most = 0, scratch = 0;
    const auto look = [&](const std::vector<GradientSum>& sums) {
      for (const GradientSum& sum : sums)
        scratch = std::max(scratch,
                           make_sum(plan_.values[sum.value], sum.parts.size(), options_.slots, find)->scratch_bytes());
    };
    const KernelBuffers whole = plan_buffers(plan_, options_, in_set_);
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      most = std::max(most, beside(s, false));
      look(whole.uses[s].before);
      look(whole.uses[s].after);
    }
    const size_t taken = most * static_cast<size_t>(options_.slots) + scratch;
    return options_.recompute_above - std::min(taken, options_.recompute_above);
  }

  // Before the last step of a segment runs backward, some of the segment run forward again.
  void find_again() {
    again_.resize(plan_.steps.size());
    const Recomputation& plan = buffers_.recomputation;
    for (size_t s = plan_.steps.size(), last = none; s-- > 0;) {
      if (plan.segment.empty()) return;
      if (last == none || plan.segment[s] != plan.segment[last]) last = s;
      if (plan.again[s]) again_[last].insert(again_[last].begin(), s);
    }
  }

  void make_sums(const FindKernel& find) {
    if (options_.mode != Mode::training) return;
    sums_.resize(plan_.steps.size());
    const auto add = [&](const std::vector<GradientSum>& wanted, std::vector<std::unique_ptr<Kernel>>& sums) {
      for (const GradientSum& sum : wanted) {
        sums.push_back(make_sum(plan_.values[sum.value], sum.parts.size(), options_.slots, find));
        most_scratch_ = std::max(most_scratch_, sums.back()->scratch_bytes());
      }
    };
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      add(buffers_.uses[s].before, sums_[s].before);
      add(buffers_.uses[s].after, sums_[s].after);
    }
    if (most_scratch_ > 0) sum_scratch_ = make_buffer(memory_, most_scratch_);
  }

  void bind() {
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const PlannedValue& value = plan_.values[v];
      if (!value.sparse) continue;
      has_sparse_gradients_ = true;
      if (gradient_type(v) != value.spec.dtype)
        throw Error("[executable] the sparse gradient of '{}' is {}, but the parameters' gradients are {}", value.name,
                    d5::name(value.spec.dtype), d5::name(gradient_type(v)));
    }
    positions_.resize(options_.slots);
    refreshed_.assign(options_.slots, SIZE_MAX);
    contributions_.resize(2 * options_.slots);
    bind_all(0);
    ready_.resize(plan_.steps.size());
    for (size_t s = plan_.steps.size(); s-- > 0;)
      for (const size_t v : plan_.steps[s].inputs) {
        const size_t r = v == none ? none : plan_.root(v);
        if (r == none || !in_set_[r] || !plan_.values[r].gradient || joined_.first_reader[r] != s) continue;
        const std::string& name = plan_.values[r].name;
        if (std::ranges::none_of(ready_[s], [&](const Gradient& g) { return g.parameter == name; }))
          ready_[s].push_back({parameters_.at(name).name, parameters_.range(name)});
      }
    for (size_t s = 0; s < sums_.size(); ++s)
      for (int slot = 0; slot < options_.slots; ++slot) {
        for (size_t i = 0; i < sums_[s].before.size(); ++i)
          bind_sum(*sums_[s].before[i], buffers_.uses[s].before[i], slot);
        for (size_t i = 0; i < sums_[s].after.size(); ++i)
          bind_sum(*sums_[s].after[i], buffers_.uses[s].after[i], slot);
      }
  }

  void bind_sum(Kernel& kernel, const GradientSum& sum, int slot) {
    Buffers buffers{.slot = slot, .position = &positions_[slot]};
    for (const size_t part : sum.parts) buffers.inputs.push_back(store_.at(part, slot));
    buffers.outputs = {store_.at(sum.target, slot)};
    buffers.input_gradients.assign(sum.parts.size(), nullptr);
    buffers.output_gradients = {nullptr};
    buffers.scratch = sum_scratch_ ? sum_scratch_->data() : nullptr;
    kernel.bind(slot, buffers);
  }

  // Bindings whose gradients of parameters are written beside them and added, made when they are first asked for.
  void bind_to_add() {
    bind_all(options_.slots);
    bound_to_add_ = true;
  }

  void bind_all(int first_binding) {
    const bool adding = first_binding > 0;
    size_t most = 0;
    for (size_t s = 0; s < plan_.steps.size(); ++s) most = std::max(most, beside(s, adding));
    beside_.push_back(make_buffer(memory_, most * static_cast<size_t>(options_.slots)));
    beside_bytes_ += beside_.back()->bytes();
    for (int slot = 0; slot < options_.slots; ++slot) {
      contributions_[first_binding + slot].assign(plan_.steps.size(), {});
      std::vector<bool> started(plan_.values.size(), false);  // its gradient holds something already
      char* room = static_cast<char*>(beside_.back()->data()) + most * static_cast<size_t>(slot);
      for (size_t s = plan_.steps.size(); s-- > 0;) bind_step(first_binding + slot, s, started, room);
    }
  }

  static size_t rounded(size_t bytes) { return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes; }

  bool goes_beside(size_t v, bool adding, bool started) const {
    return started || adding || gradient_type(v) != plan_.values[v].spec.dtype;
  }
  // Room for all gradients of parameters that one step may have to write beside their place.
  size_t beside(size_t s, bool adding) const {
    const PlannedStep& step = plan_.steps[s];
    size_t bytes = 0;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (!step.wants_gradient[i] || !plan_.values[plan_.root(step.inputs[i])].fixed()) continue;
      const size_t v = step.inputs[i];
      if (goes_beside(v, adding, last_reader(plan_.root(v)) != s || count(step.inputs, plan_.root(v)) > 1))
        bytes += rounded(plan_.values[v].gradient_bytes());
    }
    return bytes;
  }
  size_t last_reader(size_t r) const {
    for (size_t s = plan_.steps.size(); s-- > 0;)
      for (size_t i = 0; i < plan_.steps[s].inputs.size(); ++i)
        if (plan_.steps[s].wants_gradient[i] && plan_.root(plan_.steps[s].inputs[i]) == r) return s;
    return none;
  }
  size_t count(const std::vector<size_t>& inputs, size_t r) const {
    return static_cast<size_t>(
        std::ranges::count_if(inputs, [&](size_t v) { return v != none && plan_.root(v) == r; }));
  }

  void bind_step(int binding, size_t s, std::vector<bool>& started, char* room) {
    const PlannedStep& step = plan_.steps[s];
    const int slot = binding % options_.slots;
    const bool adding = binding >= options_.slots;
    Buffers buffers{.slot = slot,
                    .workspace = store_.at(buffers_.workspaces[s], slot),
                    .scratch = store_.at(buffers_.scratches[s], slot),
                    .position = &positions_[slot]};
    const GradientUse* use = buffers_.uses.empty() ? nullptr : &buffers_.uses[s];
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      buffers.outputs.push_back(step.outputs[o] == none ? nullptr : value_pointer(step.outputs[o], slot));
      const bool has = use && o < use->outputs.size() && !use->outputs[o].empty();
      buffers.output_gradients.push_back(has ? store_.at(use->outputs[o].front(), slot) : nullptr);
      for (size_t part = 1; has && part < use->outputs[o].size(); ++part)
        buffers.more_gradients.push_back(store_.at(use->outputs[o][part], slot));
    }
    buffers.adds.assign(step.inputs.size(), false);
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const size_t v = step.inputs[i];
      buffers.inputs.push_back(v == none ? nullptr : value_pointer(v, slot));
      buffers.input_gradients.push_back(nullptr);
      if (!step.wants_gradient[i] || !use || !use->runs) continue;
      if (use->inputs[i] != none) {
        buffers.input_gradients[i] = store_.at(use->inputs[i], slot);
        buffers.adds[i] = use->adds[i];
      }
      const size_t r = plan_.root(v);
      if (!plan_.values[r].fixed()) continue;
      const bool beside = goes_beside(v, adding, started[r]);
      void* const place = gradient_pointer(v, slot);
      buffers.input_gradients[i] = beside ? room : place;
      const PlannedValue& value = plan_.values[v];
      const bool add = started[r] || adding;
      if (beside)
        contributions_[binding][s].push_back({value.spec.dtype, gradient_type(v), room, place,
                                              native_elements(value.gradient_bytes(), value.spec.dtype), add});
      if (beside) room += rounded(value.gradient_bytes());
      started[r] = true;
    }
    if (step.samples == 0) return step.kernel->bind(binding, buffers);
    for (Index i = 0; i < plan_.tiles.count; ++i) {
      Buffers tile = buffers;
      tile.slot = tile_binding(slot, i);
      const auto move = [&](const std::vector<size_t>& values, std::vector<void*>& pointers) {
        for (size_t at = 0; at < values.size(); ++at) {
          if (values[at] == none) continue;
          const PlannedValue& value = plan_.values[values[at]];
          if (value.tiles == 1 && !plan_.values[value.root].fixed())
            pointers[at] = static_cast<char*>(pointers[at]) + value.bytes() / plan_.tiles.count * i;
        }
      };
      move(step.inputs, tile.inputs);
      move(step.outputs, tile.outputs);
      step.kernel->bind(tile.slot, tile);
    }
  }

  int tile_binding(int slot, Index tile) const {
    return slot * static_cast<int>(plan_.tiles.count) + static_cast<int>(tile);
  }

  Graph graph_;
  CompileOptions options_;
  KernelPlan plan_;
  ParameterSet& parameters_;
  KernelParameters joined_;
  const std::vector<bool>& in_set_;  // by value
  KernelBuffers buffers_;
  std::shared_ptr<Memory> memory_;
  KernelStore store_;
  std::vector<Sums> sums_;  // by step
  std::shared_ptr<Buffer> sum_scratch_;
  std::vector<std::shared_ptr<Buffer>> beside_;
  size_t beside_bytes_ = 0, most_scratch_ = 0;
  bool has_sparse_gradients_ = false, bound_to_add_ = false;
  uint64_t writes_ = 0;                                                // to parameters and constants
  std::vector<uint64_t> refreshed_;                                    // by slot
  std::vector<Position> positions_;                                    // by slot
  std::vector<std::vector<std::vector<Contribution>>> contributions_;  // by binding, step
  std::vector<std::vector<Gradient>> ready_;                           // by step
  std::vector<std::vector<size_t>> again_;                             // by step: what runs forward again before it
};

}  // namespace

std::unique_ptr<Executable> compile_kernels(const Graph& graph, ParameterSet& parameters, const CompileOptions& options,
                                            const FindKernel& find) {
  const JoinedPieces joined = join_pieces(graph, options);
  if (joined.pieces.empty()) return std::make_unique<KernelExecutable>(graph, parameters, options, find);
  return std::make_unique<KernelExecutable>(joined.graph, parameters, joined.options,
                                            piecewise_finder(find, joined.pieces));
}

}  // namespace d5
