// SPDX-License-Identifier: Apache-2.0
// Where samples do not depend on each other, a run of steps may work on a few of them at a time, from its first step to
// its last: what a step leaves is then still in the caches when the next one reads it. The run is the one that keeps
// most bytes from travelling: every step whose values overflow the last-level cache saves them, and reads its weights
// once more for each further tile. Those are read in order, and some of them stay in the cache: a byte of them costs a
// quarter (seen with ResNet-50, batch 16, one core of a Zen 5 with 32 MiB: tiles of one sample up to the last stage,
// 35 instead of 37 ms a sample).
#include <algorithm>
#include <set>

#include "d5/backends/kernel_plan.hpp"
#include "d5/core/parallel.hpp"
#include "d5/measure/cache.hpp"

namespace d5 {
namespace {

// With inputs of as many axes, so that the first one is that of samples.
const std::set<std::string_view> elementwise{"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu"};
const std::set<std::string_view> of_first_input{
    "Abs",       "AveragePool",   "BatchNormalization",
    "Clip",      "Conv",          "Elu",
    "Exp",       "Gelu",          "GlobalAveragePool",
    "Erf",       "GlobalMaxPool", "HardSigmoid",
    "HardSwish", "LRN",           "Mish",
    "LeakyRelu", "MaxPool",       "Relu",
    "Resize",    "Selu",          "Sigmoid",
    "Softplus",  "Sqrt",          "Tanh",
    "Swish",
};

}  // namespace

// Every sample of its results follows from that sample of its inputs alone.
bool KernelPlan::sample_by_sample(const PlannedStep& step, Index batch) const {
  const auto has_samples = [&](size_t v) {
    const PlannedValue& value = values[v];
    return value.spec.shape.rank() > 1 && value.spec.shape[0] == batch &&
           (value.order.empty() || value.order[0] == 0) && value.spec.dtype != DType::string &&
           bits(value.spec.dtype) % 8 == 0;
  };
  for (const size_t v : step.inputs)
    if (v != none && !values[root(v)].fixed() && !has_samples(v)) return false;
  for (const size_t v : step.outputs)
    if (v != none && !has_samples(v)) return false;
  if (step.is_conversion()) return !values[root(step.inputs[0])].fixed();
  const auto fixed = [&](const std::string& name) { return name.empty() || values[root(find(name))].fixed(); };
  return std::ranges::all_of(step.nodes, [&](const Node& node) {
    if (node.op == "BatchNormalization" && node.attributes.flag("training_mode", false)) return false;
    if (node.op == "Concat") return std::ranges::none_of(node.inputs, fixed);
    if (of_first_input.contains(node.op))  // then weights, limits, sizes
      return !fixed(node.inputs[0]) && std::ranges::all_of(node.inputs.begin() + 1, node.inputs.end(), fixed);
    if (!elementwise.contains(node.op) || std::ranges::all_of(node.inputs, fixed)) return false;
    const size_t rank = specs_.at(node.outputs[0]).shape.rank();
    return std::ranges::all_of(node.inputs, [&](const std::string& name) {
      const Shape& shape = specs_.at(name).shape;
      return fixed(name) ? shape.rank() < rank || shape[0] == 1 : shape.rank() == rank;
    });
  });
}

void KernelPlan::choose_tiles() {
  tiles = {};
  const auto input = std::ranges::find_if(values, [](const PlannedValue& v) { return v.input; });
  if (options_.tile_cache == 0 || options_.mode != Mode::inference || alone || options_.keep_all ||
      input == values.end() || input->spec.shape.rank() == 0)
    return;
  const Index batch = input->spec.shape[0];
  if (batch < 2) return;
  const auto cache = options_.tile_cache == CompileOptions::cache_of_machine
                         ? static_cast<double>(last_level_bytes(threads()))
                         : static_cast<double>(options_.tile_cache);
  std::vector<double> activations, weights;  // by step, in bytes: of a sample, 0 where it cannot be tiled; of all
  double most = 0;
  for (const PlannedStep& step : steps) {
    std::set<size_t> roots;
    activations.push_back(0);
    weights.push_back(0);
    if (!sample_by_sample(step, batch)) continue;
    for (const auto* list : {&step.inputs, &step.outputs})
      for (const size_t v : *list)
        if (v != none) roots.insert(root(v));
    for (const size_t r : roots)
      (values[r].fixed() ? weights : activations).back() +=
          static_cast<double>(values[r].spec.bytes()) / (values[r].fixed() ? 1.0 : static_cast<double>(batch));
    most = std::max(most, activations.back());
  }
  if (most * static_cast<double>(batch) <= cache / 2) return;
  Index samples = std::clamp<Index>(static_cast<Index>(cache / 8 / most), 1, batch);
  while (batch % samples != 0) --samples;
  if (samples == batch) return;

  const auto count = static_cast<double>(batch / samples);
  double best = 0, sum = 0;
  for (size_t s = 0, begin = 0; s < steps.size(); ++s) {
    const double travelling = activations[s] * static_cast<double>(batch);
    sum += (travelling > cache / 2 ? travelling : 0) - weights[s] * (count - 1) / 4;
    if (activations[s] == 0 || sum < 0) {
      sum = 0;
      begin = s + 1;
    } else if (sum > best) {
      best = sum;
      tiles = {begin, s + 1, samples, batch / samples};
    }
  }
  if (tiles.end - tiles.begin < 2) tiles = {};
  for (size_t s = tiles.begin; s < tiles.end; ++s) steps[s].samples = samples;
  tile_options_ = options_;
  tile_options_.slots *= static_cast<int>(tiles.count);
  find_tiled_values();
}

// What is made and read by tiled steps alone needs the bytes of one tile.
void KernelPlan::find_tiled_values() {
  std::vector<bool> made(values.size(), false), whole(values.size(), false);
  for (size_t s = tiles.begin; s < tiles.end; ++s)
    for (const size_t v : steps[s].outputs)
      if (v != none) made[v] = true;
  for (const PlannedValue& value : values) {
    const auto outside = [&](size_t s) { return !tiles.has(s); };
    if (value.kept || value.input || value.fixed() || std::ranges::any_of(value.readers, outside))
      whole[value.root] = true;
  }
  for (PlannedValue& value : values) value.tiles = made[value.root] && !whole[value.root] ? tiles.count : 1;
}

}  // namespace d5
