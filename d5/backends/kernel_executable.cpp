// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "d5/backends/kernel.hpp"
#include "d5/backends/kernel_plan.hpp"
#include "d5/core/convert.hpp"
#include "d5/core/guard.hpp"
#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

// Bytes reserved one after the other; the base is known only when the whole is allocated.
class Arena {
 public:
  size_t reserve(size_t bytes) {
    const size_t offset = bytes_;
    bytes_ += rounded(bytes);
    return offset;
  }
  size_t bytes() const { return bytes_; }
  static size_t rounded(size_t bytes) { return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes; }

 private:
  size_t bytes_ = 0;
};

// A contribution to a gradient that was written beside it: to += from, or to = from where only the type differs.
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

struct Guard {
  void* begin = nullptr;
  size_t bytes = 0;
  std::string after;  // the buffer that it follows
};

// Where a value lies. Parameters and constants have the same place in every slot.
struct Place {
  std::vector<void*> value, gradient, seed;  // by slot; the seed is apart where readers contribute to a graph's output
  DType gradient_type = DType::f32;
  bool in_set = false;
};

class KernelExecutable final : public Executable {
 public:
  KernelExecutable(const Graph& graph, ParameterSet& parameters, const CompileOptions& options, const FindKernel& find)
      : graph_(graph), options_(options), plan_(graph_, options_, find), parameters_(parameters) {
    join_parameters();
    lay_out();
    for (const auto& [name, tensor] : graph_.constants) write(Role::value, name, tensor, 0);
    bind();
  }

  void forward(const Run& run) override {
    check(run.slot);
    positions_[run.slot] = run.position;
    for (size_t n = 0; n < plan_.nodes.size(); ++n) {
      if (run.observer) run.observer->node_begin(graph_.nodes[n], Pass::forward);
      plan_.nodes[n].kernel->forward(run.slot);
      if (run.observer) run.observer->node_end(graph_.nodes[n], Pass::forward);
    }
  }

  void backward(const Run& run) override {
    check(run.slot);
    if (options_.mode != Mode::training) throw Error("[executable] compiled for inference: there is no backward");
    if (run.add_gradients && has_sparse_gradients_) throw Error("[executable] sparse gradients cannot be added up");
    const int binding = run.slot + (run.add_gradients ? options_.slots : 0);
    for (size_t n = plan_.nodes.size(); n-- > 0;) {
      if (!plan_.nodes[n].backward) continue;
      if (run.observer) run.observer->node_begin(graph_.nodes[n], Pass::backward);
      plan_.nodes[n].kernel->backward(binding);
      for (const Contribution& c : contributions_[binding][n]) apply(c);
      if (!run.observer) continue;
      run.observer->node_end(graph_.nodes[n], Pass::backward);
      for (Gradient gradient : ready_[n]) {
        if (has_sparse_gradients_) gradient.rows = rows_of(std::string(gradient.parameter), run.slot);
        run.observer->gradient_ready(gradient);
      }
    }
  }

  void write(Role role, const std::string& name, const Tensor& canonical, int slot) override {
    const PlannedValue& value = known(role, name, slot);
    if (canonical.dtype() != value.spec.dtype || !(canonical.shape() == value.spec.shape))
      throw Error("[executable] '{}' is {}; {} was given", name, to_string(value.spec),
                  to_string(TensorSpec{canonical.dtype(), canonical.shape()}));
    const Place& place = places_.at(name);
    if (role == Role::gradient) {
      void* to = (place.seed.empty() ? place.gradient : place.seed)[slot];
      if (place.gradient_type == value.spec.dtype) return store(value.gradient_layout, canonical, to);
      const Tensor native(value.spec.dtype, {native_elements(value.gradient_bytes(), value.spec.dtype)});
      store(value.gradient_layout, canonical, native.data());
      return convert(value.spec.dtype, native.data(), place.gradient_type, to, native.elements());
    }
    store(value.layout, canonical, place.value[slot]);
    if (!place.in_set) return;
    const Tensor compute = parameters_.compute(name), master = parameters_.master(name);
    if (compute.data() != master.data())
      convert(compute.dtype(), compute.data(), DType::f32, master.data(), compute.elements());
  }

  Tensor read(Role role, const std::string& name, int slot) override {
    const PlannedValue& value = known(role, name, slot);
    const Place& place = places_.at(name);
    const Tensor canonical(value.spec.dtype, value.spec.shape);
    const bool gradient = role == Role::gradient;
    const void* from = (gradient ? place.gradient : place.value)[slot];
    if (gradient && value.sparse) return dense(canonical, from, rows_of(name, slot));
    Tensor native;
    if (gradient && place.gradient_type != value.spec.dtype) {
      native = Tensor(value.spec.dtype, {native_elements(value.gradient_bytes(), value.spec.dtype)});
      convert(place.gradient_type, from, value.spec.dtype, native.data(), native.elements());
      from = native.data();
    }
    if (const LayoutPtr& layout = gradient ? value.gradient_layout : value.layout)
      layout->to_plain(from, canonical);
    else
      std::memcpy(canonical.data(), from, canonical.bytes());
    return canonical;
  }

  Tensor view(Role role, const std::string& name, int slot) override {
    const PlannedValue& value = known(role, name, slot);
    const Place& place = places_.at(name);
    const bool gradient = role == Role::gradient;
    if (gradient ? value.gradient_layout : value.layout) return {};
    if (gradient && value.sparse) return {};  // what is not a row of it is undefined
    const DType type = gradient ? place.gradient_type : value.spec.dtype;
    return Tensor::view(type, value.spec.shape, (gradient ? place.gradient : place.value)[slot], memory_);
  }

  size_t bytes() const override { return memory_->bytes(); }

  // A guard lies between two buffers: damage near its begin came from the one before, near its end from the one after.
  std::string overrun() const override {
    for (size_t i = 0; i < guards_.size(); ++i) {
      const Guard& guard = guards_[i];
      const Damage damage = guard_damage(guard.begin, guard.bytes);
      if (damage.first == guard.bytes) continue;
      const bool beyond = i + 1 == guards_.size() || (i > 0 && damage.first < guard.bytes / 2);
      return fmt::format(
          "{} wrote {} {} of {}", writers_of(beyond ? guard.after : guards_[i + 1].after),
          beyond ? fmt::format("byte {}", damage.first + 1) : fmt::format("byte {}", guard.bytes - damage.last),
          beyond ? "beyond the end" : "before the begin", beyond ? guard.after : guards_[i + 1].after);
    }
    return overrun_of_parameters();
  }

  Facts kernels() const override {
    Facts facts;
    for (size_t n = 0; n < plan_.nodes.size(); ++n)
      facts.emplace_back(graph_.nodes[n].name,
                         (plan_.nodes[n].fallback ? "fallback: " : "") + plan_.nodes[n].kernel->implementation());
    return facts;
  }

 private:
  // The rows of a sparse gradient that the last backward of this slot wrote; empty where it is dense.
  std::span<const Index> rows_of(const std::string& name, int slot) const {
    const PlannedValue& value = plan_.values.at(name);
    if (!value.sparse) return {};
    const size_t n = value.readers.front();
    const auto& inputs = graph_.nodes[n].inputs;
    return plan_.nodes[n].kernel->gradient_rows(slot,
                                                static_cast<size_t>(std::ranges::find(inputs, name) - inputs.begin()));
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

  static Index native_elements(size_t bytes, DType type) { return static_cast<Index>(bytes) * 8 / bits(type); }

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

  // The nodes that have this buffer, with their kernels.
  std::string writers_of(const std::string& buffer) const {
    const std::string value = buffer.starts_with("gradient of ") ? buffer.substr(12) : buffer;
    std::string text;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const auto has = [&](const std::vector<std::string>& names) {
        return std::ranges::find(names, value) != names.end();
      };
      if (plan_.values.contains(value) ? !has(node.inputs) && !has(node.outputs) : buffer != workspace_name(n))
        continue;
      text += fmt::format("{}{} ({})", text.empty() ? "" : " or ", node.name, plan_.nodes[n].kernel->implementation());
    }
    return text.empty() ? "a kernel" : text;
  }
  std::string workspace_name(size_t n) const { return "the workspace of " + graph_.nodes[n].name; }

  void check(int slot) const {
    if (slot < 0 || slot >= options_.slots)
      throw Error("[executable] slot {} was asked for; legal are 0 to {}", slot, options_.slots - 1);
  }

  const PlannedValue& known(Role role, const std::string& name, int slot) const {
    check(slot);
    const auto found = plan_.values.find(name);
    if (found == plan_.values.end()) {
      std::vector<std::string> legal;
      for (const auto& [value, planned] : plan_.values) legal.push_back(value);
      fail_unknown("[executable]", "value", name, legal);
    }
    if (role == Role::gradient && !found->second.gradient)
      throw Error("[executable] '{}' has no gradient in this plan: not asked for, or no output depends on it", name);
    return found->second;
  }

  // Parameters in the order in which their gradients become ready: backward goes through the nodes from the last to the
  // first, and the first reader of a value is the last to contribute.
  void join_parameters() {
    std::vector<std::string> order;
    const auto holds = [&](const PlannedValue& value) {
      return value.parameter && (value.spec.dtype == DType::f32 || value.spec.dtype == parameters_.compute_dtype());
    };
    for (size_t n = graph_.nodes.size(); n-- > 0;)
      for (const std::string& name : graph_.nodes[n].inputs)
        if (!name.empty() && holds(plan_.values.at(name)) && plan_.values.at(name).readers.front() == n &&
            std::ranges::find(order, name) == order.end())
          order.push_back(name);
    const bool add = !parameters_.frozen();
    for (const std::string& name : order) {
      const PlannedValue& value = plan_.values.at(name);
      const std::string layout = value.layout ? value.layout->name() : "";
      if (add) {
        parameters_.add({.name = name,
                         .spec = value.spec,
                         .padded_elements = native_elements(value.bytes(), value.spec.dtype),
                         .layout = layout,
                         .trainable = value.differentiable});
      } else if (const auto& shared = parameters_.at(name);
                 shared.layout != layout || !(shared.spec.shape == value.spec.shape)) {
        throw Error("[executable] parameter '{}' is {} in layout '{}' here, but {} in layout '{}' in the shared set",
                    name, to_string(value.spec), layout, to_string(shared.spec), shared.layout);
      }
      places_[name].in_set = true;
    }
    if (add) parameters_.freeze();
  }

  // Streams through tensors that lie almost exactly a power of two apart hinder each other (a Zen 4 predicts the way of
  // the first cache by a hash of the address). Seen for a product of two tensors of 256 MiB, GB/s by what lies between
  // them: 256 bytes 24, 2048 31, 65536 41, 66880 42.
  static constexpr size_t large_bytes = 4 << 20, large_guard_bytes = 66880;

  // Offsets first, then one allocation for everything that is not in the parameter set.
  void lay_out() {
    Arena arena;
    std::vector<std::pair<std::vector<void*>*, std::vector<size_t>>> pending;
    std::vector<size_t> ends;  // of the buffers, in their order: a guard follows each
    arena.reserve(guard_bytes);
    guards_.push_back({});
    const auto place = [&](std::vector<void*>& where, size_t bytes, bool shared, const std::string& name) {
      std::vector<size_t> offsets;
      for (int slot = 0; slot < options_.slots; ++slot) {
        if (shared && slot > 0) {
          offsets.push_back(offsets[0]);
          continue;
        }
        offsets.push_back(arena.reserve(bytes));
        ends.push_back(offsets.back() + bytes);
        guards_.push_back({.bytes = bytes < large_bytes ? guard_bytes : large_guard_bytes, .after = name});
        arena.reserve(guards_.back().bytes);
      }
      pending.emplace_back(&where, std::move(offsets));
    };
    for (const auto& [name, value] : plan_.values) {
      Place& p = places_[name];
      const bool shared = value.parameter || value.constant;
      p.gradient_type = p.in_set ? parameters_.compute_dtype() : value.spec.dtype;
      if (p.in_set) {
        p.value.assign(options_.slots, parameters_.compute(name).data());
        if (value.gradient) p.gradient.assign(options_.slots, parameters_.gradient(name).data());
        continue;
      }
      place(p.value, value.bytes(), shared, name);
      if (!value.gradient) continue;
      place(p.gradient, value.gradient_bytes(), shared, "gradient of " + name);
      if (value.output && contributes(name)) place(p.seed, value.gradient_bytes(), false, "gradient of " + name);
    }
    workspaces_.resize(plan_.nodes.size());
    size_t scratch = 0, beside = 0;
    for (size_t n = 0; n < plan_.nodes.size(); ++n) {
      place(workspaces_[n], plan_.nodes[n].kernel->workspace_bytes(), false, workspace_name(n));
      scratch = std::max(scratch, plan_.nodes[n].kernel->scratch_bytes());
      beside = std::max(beside, beside_bytes(n));
    }
    place(scratch_, scratch, false, "the scratch memory");
    place(beside_, beside, false, "the gradients to be added");

    memory_ = std::make_shared<Buffer>(host_memory(), arena.bytes());
    std::memset(memory_->data(), 0, memory_->bytes());  // touched once here; padding of native layouts must be zero
    char* const base = static_cast<char*>(memory_->data());
    for (auto& [where, offsets] : pending)
      for (const size_t offset : offsets) where->push_back(base + offset);
    guards_[0] = {base, guard_bytes, ""};
    for (size_t i = 0; i < ends.size(); ++i) {
      guards_[i + 1].begin = base + ends[i];
      guards_[i + 1].bytes += Arena::rounded(ends[i]) - ends[i];
    }
    for (const Guard& guard : guards_) set_guard(guard.begin, guard.bytes);
  }

  bool contributes(const std::string& name) const {
    return std::ranges::any_of(plan_.values.at(name).readers, [&](size_t n) { return plan_.nodes[n].backward; });
  }

  // Room for all gradients that one node may have to write beside their place.
  size_t beside_bytes(size_t n) const {
    Arena arena;
    for (size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i)
      if (plan_.nodes[n].wants_gradient[i]) arena.reserve(plan_.values.at(graph_.nodes[n].inputs[i]).gradient_bytes());
    return arena.bytes();
  }

  void bind() {
    for (const auto& [name, value] : plan_.values) {
      if (!value.sparse) continue;
      has_sparse_gradients_ = true;
      if (places_.at(name).gradient_type != value.spec.dtype)
        throw Error("[executable] the sparse gradient of '{}' is {}, but the parameters' gradients are {}", name,
                    d5::name(value.spec.dtype), d5::name(places_.at(name).gradient_type));
    }
    positions_.resize(options_.slots);
    const int bindings = options_.mode == Mode::training ? 2 * options_.slots : options_.slots;
    contributions_.resize(bindings);
    ready_.resize(plan_.nodes.size());
    for (int binding = 0; binding < bindings; ++binding) {
      contributions_[binding].resize(plan_.nodes.size());
      std::map<std::string, bool> started;  // its gradient holds something already
      for (size_t n = plan_.nodes.size(); n-- > 0;) bind_node(binding, n, started);
    }
    for (size_t n = plan_.nodes.size(); n-- > 0;)
      for (const std::string& name : graph_.nodes[n].inputs)
        if (!name.empty() && places_.at(name).in_set && plan_.values.at(name).gradient &&
            plan_.values.at(name).readers.front() == n &&
            std::ranges::none_of(ready_[n], [&](const Gradient& g) { return g.parameter == name; }))
          ready_[n].push_back({parameters_.at(name).name, parameters_.range(name)});
  }

  void bind_node(int binding, size_t n, std::map<std::string, bool>& started) {
    const Node& node = graph_.nodes[n];
    const int slot = binding % options_.slots;
    const bool adding = binding >= options_.slots;
    Buffers buffers{
        .slot = slot, .workspace = workspaces_[n][slot], .scratch = scratch_[slot], .position = &positions_[slot]};
    for (const std::string& name : node.outputs) {
      buffers.outputs.push_back(name.empty() ? nullptr : places_.at(name).value[slot]);
      const bool gradient = !name.empty() && plan_.values.at(name).gradient;
      buffers.output_gradients.push_back(gradient ? places_.at(name).gradient[slot] : nullptr);
    }
    Arena beside;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const std::string& name = node.inputs[i];
      buffers.inputs.push_back(name.empty() ? nullptr : places_.at(name).value[slot]);
      buffers.input_gradients.push_back(nullptr);
      if (!plan_.nodes[n].wants_gradient[i]) continue;
      const PlannedValue& value = plan_.values.at(name);
      const Place& place = places_.at(name);
      const Index elements = native_elements(value.gradient_bytes(), value.spec.dtype);
      const bool add = started[name] || (adding && value.parameter);
      const bool first = !started[name];
      started[name] = true;
      if (add || place.gradient_type != value.spec.dtype) {
        void* apart = static_cast<char*>(beside_[slot]) + beside.reserve(value.gradient_bytes());
        buffers.input_gradients[i] = apart;
        contributions_[binding][n].push_back(
            {value.spec.dtype, place.gradient_type, apart, place.gradient[slot], elements, add});
      } else {
        buffers.input_gradients[i] = place.gradient[slot];
      }
      if (first && !place.seed.empty())
        contributions_[binding][n].push_back(
            {value.spec.dtype, value.spec.dtype, place.seed[slot], place.gradient[slot], elements, true});
    }
    plan_.nodes[n].kernel->bind(binding, buffers);
  }

  Graph graph_;
  CompileOptions options_;
  KernelPlan plan_;
  ParameterSet& parameters_;
  std::map<std::string, Place> places_;
  std::shared_ptr<Buffer> memory_;
  std::vector<Guard> guards_;                   // in the order of addresses
  std::vector<std::vector<void*>> workspaces_;  // by node, slot
  std::vector<void*> scratch_, beside_;         // by slot
  bool has_sparse_gradients_ = false;
  std::vector<Position> positions_;                                    // by slot
  std::vector<std::vector<std::vector<Contribution>>> contributions_;  // by binding, node
  std::vector<std::vector<Gradient>> ready_;                           // by node
};

}  // namespace

std::unique_ptr<Executable> compile_kernels(const Graph& graph, ParameterSet& parameters, const CompileOptions& options,
                                            const FindKernel& find) {
  return std::make_unique<KernelExecutable>(graph, parameters, options, find);
}

}  // namespace d5
