// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/piecewise.hpp"

#include <algorithm>
#include <set>

#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

size_t rounded(size_t bytes) { return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes; }

// Gradients of whatever all pieces read are sums over the pieces: the first piece writes, those after it write beside
// it, and that is added.
class PiecewiseKernel final : public Kernel {
 public:
  PiecewiseKernel(FindKernel find, const Node& node, const std::vector<Index>& pieces)
      : find_(std::move(find)), pieces_(pieces) {
    for (const Index size : std::set<Index>(pieces.begin(), pieces.end())) {
      sizes_[size].kernel = find_(node);
      sizes_[size].count = static_cast<int>(std::ranges::count(pieces, size));
    }
  }

  bool complete() const {
    return std::ranges::all_of(sizes_, [](const auto& size) { return size.second.kernel != nullptr; });
  }

  std::optional<std::string> why_not(const KernelSetup& setup) const override {
    for (const auto& [samples, size] : sizes_)
      if (auto reason = size.kernel->why_not(piece(setup, samples, setup.options))) return reason;
    return {};
  }

  void arrange(KernelSetup& setup) const override {
    KernelSetup one = piece(setup, sizes_.rbegin()->first, setup.options);
    sizes_.rbegin()->second.kernel->arrange(one);
    setup.input_orders = one.input_orders;
    setup.output_orders = one.output_orders;
    const auto apart = [](const AxisOrder& order) { return order.empty() || order[0] == 0; };
    if (!apart(setup.input_order(0)) || !apart(setup.output_order(0))) Kernel::arrange(setup);
  }

  void prepare(KernelSetup& setup) override {
    wants_ = setup.wants_gradient;
    const auto bytes_of = [](const TensorSpec& spec) {
      return spec.present ? static_cast<size_t>(spec.bytes()) / static_cast<size_t>(spec.shape[0]) : 0;
    };
    input_sample_ = bytes_of(setup.inputs[0]);
    output_sample_ = bytes_of(setup.outputs[0]);
    if (!prepare_pieces(setup)) {
      plain_ = true;
      for (auto& [samples, size] : sizes_) size.kernel = find_(setup.node);
      if (!prepare_pieces(setup))
        throw Error("[kernel] {}: its pieces want row-major parameters in several layouts", setup.node.name);
    }
    for (size_t i = 1; i < setup.inputs.size(); ++i) {
      const LayoutPtr& layout = setup.input_gradient_layouts[i];
      summed_.push_back(!wants_[i] ? 0 : layout ? layout->bytes() : static_cast<size_t>(setup.inputs[i].bytes()));
    }
  }

  void bind(int binding, const Buffers& all) override {
    bound_.resize(std::max(bound_.size(), static_cast<size_t>(binding) + 1));
    std::vector<BoundPiece>& bound = bound_[static_cast<size_t>(binding)];
    bound.clear();
    std::map<Index, int> next;
    Index first = 0;
    size_t workspace = 0;
    for (const Index samples : pieces_) {
      const Size& size = sizes_.at(samples);
      const int place = next[samples]++;
      Buffers one = all;
      one.slot = all.slot * size.count + place;
      const auto move = [&](std::vector<void*>& pointers, size_t sample_bytes) {
        if (!pointers.empty() && pointers[0])
          pointers[0] = static_cast<char*>(pointers[0]) + static_cast<size_t>(first) * sample_bytes;
      };
      move(one.inputs, input_sample_);
      move(one.input_gradients, input_sample_);
      move(one.outputs, output_sample_);
      move(one.output_gradients, output_sample_);
      one.workspace = all.workspace ? static_cast<char*>(all.workspace) + workspace : nullptr;
      workspace += rounded(size.kernel->workspace_bytes());
      bound.push_back({size.kernel.get(), binding * size.count + place, {}});
      char* beside = static_cast<char*>(all.scratch) + most_scratch();
      for (size_t i = 1; i < one.input_gradients.size(); ++i) {
        if (first == 0 || summed_[i - 1] == 0 || !one.input_gradients[i]) continue;
        bound.back().sums.push_back({reinterpret_cast<const float*>(beside),
                                     static_cast<float*>(one.input_gradients[i]),
                                     static_cast<Index>(summed_[i - 1] / sizeof(float))});
        one.input_gradients[i] = beside;
        beside += rounded(summed_[i - 1]);
      }
      size.kernel->bind(bound.back().binding, one);
      first += samples;
    }
  }

  void refresh(int binding) override {
    for (const BoundPiece& piece : bound_[static_cast<size_t>(binding)]) piece.kernel->refresh(piece.binding);
  }
  void forward(int binding) override {
    for (const BoundPiece& piece : bound_[static_cast<size_t>(binding)]) piece.kernel->forward(piece.binding);
  }
  void backward(int binding) override {
    for (const BoundPiece& piece : bound_[static_cast<size_t>(binding)]) {
      piece.kernel->backward(piece.binding);
      for (const Sum& sum : piece.sums)
        parallel_for(sum.elements, 1 << 15, [&sum](Index first, Index last) {
          for (Index i = first; i < last; ++i) sum.to[i] += sum.from[i];
        });
    }
  }

  std::string implementation() const override {
    std::string text;
    for (auto size = sizes_.rbegin(); size != sizes_.rend(); ++size)
      text += fmt::format("{}{} x {} samples", text.empty() ? "" : " + ", size->second.count, size->first);
    return fmt::format("{}: {}", text, sizes_.rbegin()->second.kernel->implementation());
  }

  size_t workspace_bytes() const override {
    size_t sum = 0;
    for (const auto& [samples, size] : sizes_)
      sum += static_cast<size_t>(size.count) * rounded(size.kernel->workspace_bytes());
    return sum;
  }
  size_t scratch_bytes() const override {
    size_t sum = most_scratch();
    for (const size_t bytes : summed_) sum += rounded(bytes);
    return sum;
  }

 private:
  struct Size {
    std::unique_ptr<Kernel> kernel;
    int count = 0;  // of pieces of this size
  };
  struct Sum {
    const float* from;
    float* to;
    Index elements;
  };
  struct BoundPiece {
    Kernel* kernel;
    int binding;
    std::vector<Sum> sums;  // after it ran backward
  };

  // False: they do not agree on the layouts of parameters.
  bool prepare_pieces(KernelSetup& setup) {
    setup.memory = {};
    setup.memory.backward_inputs.emplace(setup.inputs.size(), false);
    setup.memory.backward_outputs.emplace(setup.outputs.size(), false);
    std::optional<std::vector<std::string>> layouts;
    options_.clear();
    for (auto size = sizes_.rbegin(); size != sizes_.rend(); ++size) {
      options_.push_back(std::make_unique<CompileOptions>(setup.options));
      options_.back()->slots *= size->second.count;
      KernelSetup one = piece(setup, size->first, *options_.back());
      size->second.kernel->prepare(one);
      std::vector<std::string> names;
      for (const LayoutPtr& layout : one.input_layouts) names.push_back(layout ? layout->name() : "");
      if (layouts && *layouts != names) return false;
      layouts = names;
      setup.input_layouts = one.input_layouts;
      setup.input_gradient_layouts = one.input_gradient_layouts;
      add_reads(one.memory.backward_inputs, setup.memory.backward_inputs);
      add_reads(one.memory.backward_outputs, setup.memory.backward_outputs);
    }
    return true;
  }

  // What the kernel of a piece learns: fewer samples, and nothing that would tie pieces together.
  KernelSetup piece(const KernelSetup& all, Index samples, const CompileOptions& options) const {
    KernelSetup one{.node = all.node,
                    .op = all.op,
                    .inputs = all.inputs,
                    .outputs = all.outputs,
                    .options = options,
                    .wants_gradient = all.wants_gradient,
                    .is_parameter = all.is_parameter,
                    .plain_inputs = all.plain_inputs,
                    .plain_outputs = all.plain_outputs,
                    .in_network = all.in_network,
                    .input_orders = all.input_orders,
                    .output_orders = all.output_orders};
    one.inputs[0].shape = with_samples(one.inputs[0].shape, samples);
    one.inputs[0].known = nullptr;
    one.outputs[0].shape = with_samples(one.outputs[0].shape, samples);
    one.plain_inputs[0] = one.plain_outputs[0] = true;
    if (plain_) one.plain_inputs.assign(one.inputs.size(), true);
    one.input_layouts.resize(one.inputs.size());
    one.input_gradient_layouts.resize(one.inputs.size());
    one.output_layouts.resize(one.outputs.size());
    one.output_gradient_layouts.resize(one.outputs.size());
    return one;
  }

  static void add_reads(const std::optional<std::vector<bool>>& from, std::optional<std::vector<bool>>& to) {
    if (!from) to.reset();
    for (size_t i = 0; to && i < to->size() && i < from->size(); ++i) to->at(i) = to->at(i) || from->at(i);
  }

  size_t most_scratch() const {
    size_t most = 0;
    for (const auto& [samples, size] : sizes_) most = std::max(most, size.kernel->scratch_bytes());
    return rounded(most);
  }

  FindKernel find_;
  std::vector<Index> pieces_;
  bool plain_ = false;           // parameters are row-major: sizes like them in different layouts
  std::map<Index, Size> sizes_;  // by samples
  std::vector<std::unique_ptr<CompileOptions>> options_;  // of the kernels, by size
  std::vector<bool> wants_;
  size_t input_sample_ = 0, output_sample_ = 0;  // bytes
  std::vector<size_t> summed_;                   // by input from the second on: bytes of its gradient
  std::vector<std::vector<BoundPiece>> bound_;   // by binding
};

// The Split, and the pieces in order, behind the Concat of one divided node.
struct Divided {
  size_t split;
  std::vector<size_t> parts;
  std::vector<Index> sizes;
};

class Joiner {
 public:
  Joiner(const Graph& graph, const CompileOptions& options)
      : graph_(graph), options_(options), specs_(infer_specs(graph)) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const std::string& name : graph.nodes[n].outputs) maker_[name] = n;
      for (const std::string& name : graph.nodes[n].inputs) ++reads_[name];
    }
    for (const std::string& name : graph.outputs) ++reads_[name];
  }

  std::optional<Divided> divided(const Node& join) const {
    if (join.op != "Concat" || join.attributes.integer("axis", 0) != 0 || join.inputs.size() < 2) return {};
    Divided found{.split = SIZE_MAX};
    for (const std::string& name : join.inputs) {
      const auto maker = maker_.find(name);
      if (maker == maker_.end() || !is_inside(name)) return {};
      const Node& part = graph_.nodes[maker->second];
      if (part.op != "Conv") return {};
      const auto source = maker_.find(part.inputs[0]);
      if (source == maker_.end() || !is_inside(part.inputs[0])) return {};
      if (specs_.at(part.inputs[0]).dtype != DType::f32) return {};
      if (found.split == SIZE_MAX) found.split = source->second;
      if (source->second != found.split || !same_work(part, graph_.nodes[*first_of(found, maker->second)])) return {};
      found.parts.push_back(maker->second);
      found.sizes.push_back(specs_.at(part.inputs[0]).shape[0]);
    }
    const Node& split = graph_.nodes[found.split];
    if (split.op != "Split" || split.attributes.integer("axis", 0) != 0) return {};
    if (split.outputs.size() != found.parts.size()) return {};
    for (size_t i = 0; i < found.parts.size(); ++i)
      if (graph_.nodes[found.parts[i]].inputs[0] != split.outputs[i]) return {};
    return found;
  }

 private:
  static std::optional<size_t> first_of(const Divided& found, size_t otherwise) {
    return found.parts.empty() ? otherwise : found.parts.front();
  }
  bool is_inside(const std::string& name) const { return reads_.at(name) == 1 && !options_.keeps(name); }
  static bool same_work(const Node& a, const Node& b) {
    return std::equal(a.inputs.begin() + 1, a.inputs.end(), b.inputs.begin() + 1, b.inputs.end()) &&
           a.attributes == b.attributes;
  }

  const Graph& graph_;
  const CompileOptions& options_;
  Specs specs_;
  std::map<std::string, size_t> maker_;
  std::map<std::string, int> reads_;
};

}  // namespace

JoinedPieces join_pieces(const Graph& graph, const CompileOptions& options) {
  JoinedPieces joined{graph, {}, options};
  if (std::ranges::none_of(graph.nodes, [](const Node& node) { return node.op == "Split"; })) return joined;
  const Joiner joiner(graph, options);
  std::set<size_t> gone;
  std::map<size_t, Node> instead;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto found = joiner.divided(graph.nodes[n]);
    if (!found) continue;
    Node node = graph.nodes[found->parts[0]];
    const std::string& name = graph.nodes[n].name;
    node.name = name.ends_with(".join") ? name.substr(0, name.size() - 5) : name;
    node.inputs[0] = graph.nodes[found->split].inputs[0];
    node.outputs = graph.nodes[n].outputs;
    joined.pieces[node.name] = found->sizes;
    gone.insert(found->split);
    gone.insert(found->parts.begin(), found->parts.end());
    instead.emplace(n, std::move(node));
  }
  if (instead.empty()) return joined;
  joined.options.tile_cache = 0;
  joined.graph.nodes.clear();
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (const auto node = instead.find(n); node != instead.end())
      joined.graph.nodes.push_back(std::move(node->second));
    else if (!gone.contains(n))
      joined.graph.nodes.push_back(graph.nodes[n]);
  return joined;
}

FindKernel piecewise_finder(const FindKernel& find, const std::map<std::string, std::vector<Index>>& pieces) {
  return [find, pieces](const Node& node) -> std::unique_ptr<Kernel> {
    const auto found = pieces.find(node.name);
    if (found == pieces.end()) return find(node);
    auto kernel = std::make_unique<PiecewiseKernel>(find, node, found->second);
    return kernel->complete() ? std::move(kernel) : nullptr;
  };
}

}  // namespace d5
