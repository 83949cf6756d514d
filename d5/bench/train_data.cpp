// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_data.hpp"

#include <algorithm>

#include "d5/bench/data_case.hpp"
#include "d5/core/rng.hpp"
#include "d5/datasets/byte_pixels.hpp"
#include "d5/datasets/named.hpp"
#include "d5/datasets/tensor_dataset.hpp"
#include "d5/datasets/views.hpp"
#include "d5/networks/loss.hpp"
#include "d5/networks/samples.hpp"

namespace d5 {
namespace {

Json data_case(const Json& fields, const std::string& dataset, const std::string& options, Index samples) {
  Json result = {{"kind", "data"}};
  for (const CaseField& field : data_fields()) result[field.name] = field.otherwise;
  result["dataset"] = dataset;
  result["options"] = options;
  result["samples"] = samples;
  for (const char* name : {"data", "pixels", "fit"}) result[name] = fields.at(name);
  return result;
}

bool has_option(const std::string& dataset, const std::string& name) {
  const auto* entry = find_registered<datasets>(dataset);
  return entry && std::ranges::any_of(entry->options, [&](const DataOption& option) { return option.name == name; });
}

bool has_parts(const std::string& dataset) { return has_option(dataset, "part"); }

// "test", but "val" of ImageNet, whose test part has no labels.
std::string test_part(const std::string& dataset) {
  if (const auto* entry = find_registered<datasets>(dataset))
    for (const PublishedFile& file : entry->files)
      if (!file.part.empty() && file.part != "train") return file.part;
  return "test";
}

std::string with_part(std::string options, const std::string& part) {
  return options + (options.empty() ? "" : ";") + "part=" + part;
}

// A generated set is as large as one asks.
DatasetPointer open(const Json& fields, const std::string& dataset, std::string options, Index samples) {
  if (samples >= 0 && has_option(dataset, "size")) {
    options += (options.empty() ? "" : ";") + fmt::format("size={}", samples);
    samples = -1;
  }
  return open_data_source(data_case(fields, dataset, options, samples)).data;
}

// Pixels come as bytes; a network reads floats.
std::shared_ptr<const Augmented> with_steps(const DatasetPointer& data, const std::string& text, const Json& fields) {
  const auto seed = fields.at("seed").get<uint64_t>();
  std::vector<AugmentationStep> steps = parse_augmentations(text);
  auto result = std::make_shared<const Augmented>(data, steps, seed);
  if (!has_byte_pixels(result->fields()) && fields.at("normalise") == "") return result;
  const Normalisation values = normalisation_of(fields);
  steps.push_back({"normalise", {{"mean", values.mean}, {"deviation", values.deviation}}});
  return std::make_shared<const Augmented>(data, steps, seed);
}

}  // namespace

Normalisation normalisation_of(const Json& fields) {
  Normalisation result;
  const auto steps = parse_augmentations("normalise " + fields.at("normalise").get<std::string>());
  result.mean = steps.at(0).values.reals("mean", result.mean);
  result.deviation = steps.at(0).values.reals("deviation", result.deviation);
  return result;
}

TrainData open_train_data(const Json& fields) {
  const std::string dataset = fields.at("dataset"), other = fields.at("test_dataset"), options = fields.at("options");
  const auto samples = fields.at("samples").get<Index>(), test_samples = fields.at("test_samples").get<Index>();
  DatasetPointer train, test;
  if (!other.empty()) {
    train = open(fields, dataset, has_parts(dataset) ? with_part(options, "train") : options, samples);
    test = open(fields, other, has_parts(other) ? with_part(options, test_part(other)) : options, test_samples);
  } else if (has_parts(dataset)) {
    train = open(fields, dataset, with_part(options, "train"), samples);
    test = open(fields, dataset, with_part(options, test_part(dataset)), test_samples);
  } else {
    const DatasetPointer all = open(fields, dataset, options, -1);
    const double share = fields.at("test_share");
    const auto tested = static_cast<Index>(static_cast<double>(all->size()) * share);
    if (tested < 1 || tested >= all->size())
      throw UsageError("[train] test_share is {} of {} samples; at least one is tested and one is trained on", share,
                       all->size());
    const Index kept = all->size() - tested;
    train = range(all, 0, samples < 0 ? kept : std::min(samples, kept));
    test = range(all, kept, test_samples < 0 ? tested : std::min(test_samples, tested));
  }
  return {with_steps(train, fields.at("augment"), fields), with_steps(test, fields.at("test_augment"), fields)};
}

TrainData fixture_data(const Graph& graph, Index samples, uint64_t seed) {
  std::vector<Field> fields;
  std::vector<Tensor> values;
  for (auto& [name, tensor] : sample_inputs(graph, seed)) {
    std::vector<Index> sizes = tensor.shape().sizes();
    sizes.erase(sizes.begin());
    Field field{name == target_name ? "target" : "image", tensor.dtype(), Shape(sizes), {}};
    const bool first = name != target_name;
    fields.insert(first ? fields.begin() : fields.end(), field);
    values.insert(first ? values.begin() : values.end(), tensor);
  }
  const auto data = std::make_shared<const TensorDataset>("fixture", std::move(fields), std::move(values));
  const auto plain = std::make_shared<const Augmented>(range(data, 0, samples), std::vector<AugmentationStep>{}, seed);
  return {plain, plain};
}

}  // namespace d5
