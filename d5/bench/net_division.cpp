// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_division.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "d5/backends/memory_limit.hpp"
#include "d5/core/parallel.hpp"
#include "d5/core/plugins.hpp"
#include "d5/core/version.hpp"
#include "d5/graph/integer_program.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/quantile.hpp"
#include "d5/measure/roofline_cache.hpp"

namespace d5 {
namespace {

constexpr const char* schema = "d5-micro-batch/1";

// One convolution of the network, with another number of samples.
Graph alone(const Graph& graph, const Specs& specs, const Node& node, Index samples) {
  Graph one{.name = node.name};
  Node copy = node;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty()) continue;
    copy.inputs[i] = fmt::format("x{}", i);
    TensorSpec spec{specs.at(node.inputs[i]).dtype, specs.at(node.inputs[i]).shape};
    if (i == 0) {
      auto sizes = spec.shape.sizes();
      sizes[0] = samples;
      spec.shape = Shape(std::move(sizes));
    }
    one.inputs.push_back({.name = copy.inputs[i], .spec = spec, .parameter = i > 0});
  }
  copy.outputs = {"y"};
  one.nodes = {copy};
  one.outputs = {"y"};
  for (const GraphInput& input : graph.inputs)
    if (input.name == node.inputs[0]) one.inputs[0].differentiable = false;  // data: nobody wants its gradient
  return one;
}

std::string key_of(const Graph& one, Backend& backend, const CompileOptions& options) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} ", schema, version(), roofline_key(threads()), options.kernel,
                  static_cast<int>(options.mode), static_cast<int>(options.math), static_cast<int>(options.layout));
  for (const auto& [name, value] : backend.facts()) text += name + "=" + value + ";";
  for (const GraphInput& input : one.inputs) text += to_string(input.spec) + (input.differentiable ? "d" : "") + ";";
  for (const auto& [name, value] : one.nodes[0].attributes.values()) text += name + "=" + to_string(value) + ";";
  return content_hash(text);
}

std::filesystem::path file_of(const std::string& key) {
  const auto folder = cache_folder();
  return folder.empty() ? folder : folder / "micro-batch" / (key + ".json");
}

std::optional<MeasuredSize> load(const std::string& key, Index samples) {
  const auto path = file_of(key);
  if (path.empty()) return {};
  std::ifstream in(path);
  const Json kept = Json::parse(in, nullptr, false);
  if (!kept.is_object() || kept.value("schema", "") != schema || kept.value("key", "") != key) return {};
  const double seconds = kept.value("seconds", 0.0), bytes = kept.value("workspace_bytes", -1.0);
  if (!(seconds > 0) || bytes < 0) return {};
  return MeasuredSize{samples, seconds, bytes};
}

// What cannot be kept is measured again.
void save(const std::string& key, const MeasuredSize& size) {
  const auto path = file_of(key);
  if (path.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  const std::filesystem::path beside = path.string() + fmt::format(".{}", getpid());
  std::ofstream(beside) << Json{
      {"schema", schema},
      {"key", key},
      {"seconds", size.seconds},
      {"workspace_bytes",
       size.workspace_bytes}}.dump();
  std::filesystem::rename(beside, path, failed);
}

double seconds_of(Backend& backend, Executable& executable, bool training) {
  constexpr double enough_s = 0.02;
  constexpr size_t fewest = 5;
  std::vector<double> samples;
  for (double sum = 0; samples.size() <= fewest || sum < enough_s;) {
    const double begin = now_seconds();
    executable.forward({});
    if (training) executable.backward({});
    backend.synchronize();
    samples.push_back(now_seconds() - begin);
    sum += samples.back();
  }
  samples.erase(samples.begin());  // the first meets cold caches and fresh pages
  std::ranges::sort(samples);
  return quantile(samples, 0.5);
}

}  // namespace

std::optional<std::vector<MeasuredSize>> measured_sizes(const Graph& graph, const Node& node, Backend& backend,
                                                        const CompileOptions& options, DType compute, int& measured) {
  const Specs specs = infer_specs(graph);
  CompileOptions how = options;
  how.input_gradients = true;
  how.recompute_above = 0;
  how.backward_again = false;
  std::vector<MeasuredSize> sizes;
  for (const Index samples : micro_batch_sizes(specs.at(node.inputs[0]).shape[0])) {
    const Graph one = alone(graph, specs, node, samples);
    const std::string key = key_of(one, backend, how);
    if (const auto kept = load(key, samples)) {
      sizes.push_back(*kept);
      continue;
    }
    try {
      ParameterSet parameters(compute, backend.memory(how.device));
      const auto executable = backend.compile(one, parameters, how);
      const auto workspace = executable->workspace_bytes();
      if (!workspace) return {};
      sizes.push_back(
          {samples, seconds_of(backend, *executable, how.mode == Mode::training), static_cast<double>(*workspace)});
      save(key, sizes.back());
      ++measured;
    } catch (const OverLimit&) {  // larger ones do not fit either
      break;
    }
  }
  return sizes;
}

namespace {

class Divider {
 public:
  Divider(const Graph& graph, Backend& backend, const CompileOptions& options, DType compute, Workspaces workspaces)
      : graph_(graph), backend_(backend), options_(options), compute_(compute), workspaces_(workspaces) {}

  NetDivision run() {
    if (workspaces_ == Workspaces::side_by_side && !integer_solver())
      return {.why_not = "this build has no solver for integer programs (coinor-libcbc-dev)"};
    NetDivision result;
    int measured = 0;
    const Specs specs = infer_specs(graph_);
    for (const Node& node : graph_.nodes) {
      if (node.op != "Conv") continue;
      auto sizes = measured_sizes(graph_, node, backend_, options_, compute_, measured);
      if (!sizes)
        return {.why_not =
                    "the backend does not say what workspace its kernels need; accumulate:auto divides the step"};
      nodes_.push_back(node.name);
      batches_.push_back(specs.at(node.inputs[0]).shape[0]);
      sizes_.push_back(std::move(*sizes));
    }
    if (nodes_.empty()) return {.why_not = "the network has no convolution to divide"};
    const std::vector<double> limits = limits_to_try();
    const auto fitting = largest_fitting(limits);
    if (!fitting) return {.why_not = why_nothing_fits()};
    const std::vector<Division> divisions = *divisions_within(limits[*fitting]);
    double workspace = 0;
    Json plan = Json::object();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Division& one = divisions[i];
      workspace = workspaces_ == Workspaces::shared ? std::max(workspace, one.workspace_bytes)
                                                    : workspace + one.workspace_bytes;
      if (one.pieces.size() == 1) continue;
      result.pieces[nodes_[i]] = one.pieces;
      for (auto piece = one.pieces.begin(); piece != one.pieces.end();) {
        const auto next = std::find_if(piece, one.pieces.end(), [&](Index size) { return size != *piece; });
        plan[nodes_[i]].push_back({next - piece, *piece});
        piece = next;
      }
    }
    result.report = {{"pieces", plan},  // by node: how many of how many samples
                     {"convolutions", nodes_.size()},
                     {"workspaces", workspaces_ == Workspaces::shared ? "shared" : "side by side"},
                     {"workspace_bytes", workspace},
                     {"sizes_measured_now", measured}};
    return result;
  }

 private:
  // Limits on workspace, the largest first.
  std::vector<double> limits_to_try() const {
    std::set<double> limits;
    double most = 0;
    for (const auto& sizes : sizes_) {
      double largest = 0;
      for (const MeasuredSize& size : sizes) {
        limits.insert(size.workspace_bytes);
        largest = std::max(largest, size.workspace_bytes);
      }
      most += largest;
    }
    if (workspaces_ == Workspaces::side_by_side) {
      limits.clear();
      for (double limit = most; limit > 1 && limits.size() < 64; limit *= 0.9) limits.insert(limit);
      limits.insert(most);
    }
    return {limits.rbegin(), limits.rend()};
  }

  // The number of the largest limit with which everything fits.
  std::optional<size_t> largest_fitting(const std::vector<double>& limits) const {
    if (limits.empty()) return {};
    if (options_.memory_limit == 0) return 0;
    size_t first = 0, last = limits.size();  // `first` may fit, `last` and what is below need not be looked at
    while (last > first && !divisions_within(limits[last - 1])) --last;
    while (first < last) {
      const size_t middle = first + (last - first) / 2;
      if (fits(*divisions_within(limits[middle])))
        last = middle;
      else
        first = middle + 1;
    }
    if (first == limits.size() || !divisions_within(limits[first]) || !fits(*divisions_within(limits[first])))
      return {};
    return first;
  }

  // A convolution stays whole where dividing it gains less than the times are worth.
  std::optional<std::vector<Division>> divisions_within(double limit) const {
    constexpr double worth = 0.03;
    auto divisions = fastest_divisions(batches_, sizes_, limit, workspaces_);
    for (size_t i = 0; divisions && workspaces_ == Workspaces::shared && i < sizes_.size(); ++i)
      for (const MeasuredSize& size : sizes_[i])
        if (size.samples == batches_[i] && size.workspace_bytes <= limit &&
            size.seconds <= (1 + worth) * (*divisions)[i].seconds)
          (*divisions)[i] = {{size.samples}, size.seconds, size.workspace_bytes};
    return divisions;
  }

  bool fits(const std::vector<Division>& divisions) const {
    std::map<std::string, std::vector<Index>> pieces;
    for (size_t i = 0; i < nodes_.size(); ++i) pieces[nodes_[i]] = divisions[i].pieces;
    try {
      ParameterSet parameters(compute_, backend_.memory(options_.device));
      backend_.compile(with_micro_batches(graph_, pieces), parameters, options_);
      return true;
    } catch (const OverLimit& over) {
      least_needed_ = std::min(least_needed_, over.needed());
      return false;
    }
  }

  std::string why_nothing_fits() const {
    return least_needed_ == SIZE_MAX
               ? "one sample of a convolution alone needs more than the limit allows"
               : OverLimit(graph_.name + " with the smallest pieces", least_needed_, options_.memory_limit).what();
  }

  const Graph& graph_;
  Backend& backend_;
  const CompileOptions& options_;
  DType compute_;
  Workspaces workspaces_;
  std::vector<std::string> nodes_;
  std::vector<Index> batches_;
  std::vector<std::vector<MeasuredSize>> sizes_;
  mutable size_t least_needed_ = SIZE_MAX;
};

}  // namespace

NetDivision divide_network(const Graph& graph, Backend& backend, const CompileOptions& options, DType compute,
                           Workspaces workspaces) {
  return Divider(graph, backend, options, compute, workspaces).run();
}

}  // namespace d5
