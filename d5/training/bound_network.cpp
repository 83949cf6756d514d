// SPDX-License-Identifier: Apache-2.0
#include "d5/training/bound_network.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "d5/backends/keeps_values.hpp"
#include "d5/core/convert.hpp"
#include "d5/networks/form.hpp"
#include "d5/networks/loss.hpp"

namespace d5 {
namespace {

using Role = Executable::Role;

// The one input that samples are written to, and the target.
std::vector<const GraphInput*> data_inputs(const Graph& graph) {
  std::vector<const GraphInput*> inputs;
  for (const GraphInput& input : graph.inputs)
    if (!input.parameter && input.name != target_name) inputs.push_back(&input);
  if (inputs.size() != 1)
    throw UsageError("[train] {} has {} inputs beside its target; networks with one can be trained", graph.name,
                     inputs.size());
  for (const GraphInput& input : graph.inputs)
    if (input.name == target_name) inputs.push_back(&input);
  return inputs;
}

void check_field(const Field& field, const GraphInput& input, const std::string& network) {
  if (!field.shape)
    throw UsageError("[train] field '{}' of the data differs in size from sample to sample: give --pixels", field.name);
  const Index samples = std::max<Index>(1, input.spec.shape[0]);
  const Index wanted = input.spec.shape.elements() / samples;
  if (field.shape->elements() != wanted)
    throw UsageError("[train] a sample's '{}' is {} with {} values; '{}' of {} takes {} ({})", field.name,
                     to_string(TensorSpec{field.dtype, *field.shape}), field.shape->elements(), input.name, network,
                     wanted, to_string(input.spec));
  if (is_float(field.dtype) && !is_float(input.spec.dtype))
    throw UsageError("[train] a sample's '{}' is {}; '{}' of {} takes {}", field.name, name(field.dtype), input.name,
                     network, name(input.spec.dtype));
}

}  // namespace

Feed choose_feed(const std::vector<Field>& fields, const Graph& graph, const TensorSpec& scores) {
  if (fields.size() < 2)
    throw UsageError("[train] the data has {} field{}; a sample and its target are wanted", fields.size(),
                     fields.size() == 1 ? "" : "s");
  static constexpr std::array names{"label", "target", "next", "mask"};
  Feed feed;
  for (size_t f = fields.size(); f-- > 0;)
    if (std::ranges::find(names, fields[f].name) != names.end()) feed.target = f;
  feed.input = feed.target == 0 ? 1 : 0;
  const auto inputs = data_inputs(graph);
  check_field(fields[feed.input], *inputs.at(0), graph.name);
  check_field(fields[feed.target], *inputs.at(1), graph.name);
  const bool tokens = scores.shape.rank() == 3 && inputs[1]->spec.shape.rank() == 2;
  const Index classes = tokens ? scores.shape.back() : scores.shape[1];
  if (const auto& has = fields[feed.target].classes; has && !is_float(inputs[1]->spec.dtype) && *has > classes)
    throw UsageError("[train] '{}' of the data has {} classes; {} has {}: give it --classes {}",
                     fields[feed.target].name, *has, graph.name, classes, *has);
  return feed;
}

BoundNetwork::BoundNetwork(const Graph& graph, const std::string& scores, Backend& backend, ParameterSet& parameters,
                           CompileOptions options, double loss_weight)
    : parameters_(parameters), scores_name_(scores), scores_spec_(infer_specs(graph).at(scores)) {
  if (std::ranges::find(graph.outputs, scores) == graph.outputs.end()) options.keep.push_back(scores);
  executable_ = backend.compile(graph, parameters, options);
  const auto inputs = data_inputs(graph);
  input_ = place_of(inputs.at(0)->name, inputs[0]->spec);
  target_place_ = place_of(inputs.at(1)->name, inputs[1]->spec);
  if (options.mode != Mode::training) return;
  for (const auto& [parameter, output] : running_updates(graph)) statistics_.emplace_back(parameter, output);
  const TensorSpec loss = infer_specs(graph).at(loss_name);
  const Tensor weight(loss.dtype, loss.shape);
  store_from_double(loss.dtype, weight.data(), 0, loss_weight);
  executable_->write(Role::gradient, loss_name, weight);
}

BoundNetwork::Place BoundNetwork::place_of(const std::string& name, const TensorSpec& spec) {
  return {name, spec, executable_->view(Role::value, name)};
}

void BoundNetwork::feed(const Feed& feed, const Batch& batch) {
  give(input_, batch.fields[feed.input]);
  target_ = give(target_place_, batch.fields[feed.target]);
}

// The batch's own rows, in the network's type.
Tensor BoundNetwork::give(const Place& place, const Tensor& from) {
  const Tensor typed =
      (from.dtype() == place.spec.dtype ? from : from.cast(place.spec.dtype)).reshaped(place.spec.shape);
  if (place.bound.present())
    place.bound.copy_from(typed);
  else
    executable_->write(Role::value, place.name, typed);
  return typed;
}

void BoundNetwork::forward(Position position) { executable_->forward({.position = position}); }

void BoundNetwork::backward(bool add_gradients, Observer* observer) {
  executable_->backward({.add_gradients = add_gradients, .observer = observer});
}

Tensor BoundNetwork::take(const std::string& name) {
  const Tensor seen = executable_->view(Role::value, name);
  return seen.present() ? seen : executable_->read(Role::value, name);
}

void BoundNetwork::keep_statistics() {
  if (statistics_.empty()) return;
  parameters_.touch();
  if (auto* own = dynamic_cast<KeepsValues*>(executable_.get())) return own->keep_values(statistics_);
  for (const auto& [parameter, output] : statistics_) {
    const Tensor value = take(output);
    if (parameters_.has(parameter))
      parameters_.master(parameter).slice(0, value.elements()).copy_from(value.reshaped({value.elements()}));
    else
      executable_->write(Role::value, parameter, value.to(host_memory()));
  }
}

double BoundNetwork::loss() {
  const Tensor value = take(loss_name).to(host_memory());
  const double loss = load_as_double(value.dtype(), value.data(), 0);
  return std::isnan(loss) ? std::numeric_limits<double>::quiet_NaN() : loss;  // its sign says nothing
}

Tensor BoundNetwork::scores() {
  const Tensor value = take(scores_name_).to(host_memory());
  return value.dtype() == DType::f32 ? value : value.cast(DType::f32);
}

}  // namespace d5
