// SPDX-License-Identifier: Apache-2.0
// A trained network for others. As ONNX it takes what the data set held: where pixels were bytes, values from 0 to 255
// go in, and the graph itself does (x / 255 - mean) / deviation. As .npz it is the weights by name, or all that a
// checkpoint holds.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "d5/bench/train_case.hpp"
#include "d5/bench/train_data.hpp"
#include "d5/datasets/byte_pixels.hpp"
#include "d5/datasets/npy.hpp"
#include "d5/graph/edit.hpp"
#include "d5/graph/onnx/write.hpp"
#include "d5/graph/trainable.hpp"
#include "d5/training/checkpoint_parts.hpp"

namespace d5 {
namespace {

// y_c = x_c * factor_c + offset_c in front of the network, with its input's old name as the new one.
void insert_normalisation(Graph& graph, const Normalisation& n, double range) {
  for (const GraphInput& input : graph.inputs) {
    if (input.parameter) continue;
    const Index channels = input.spec.shape.rank() > 1 ? input.spec.shape[1] : 1;
    const bool one = n.mean.size() == 1 && n.deviation.size() == 1;
    std::vector<Index> sizes(input.spec.shape.rank(), 1);
    if (!one) sizes.at(1) = channels;
    const Tensor factor(DType::f32, Shape(sizes)), offset(DType::f32, Shape(sizes));
    for (Index c = 0; c < (one ? 1 : channels); ++c) {
      const double mean = n.mean[n.mean.size() == 1 ? 0 : static_cast<size_t>(c)];
      const double deviation = n.deviation[n.deviation.size() == 1 ? 0 : static_cast<size_t>(c)];
      factor.values<float>()[static_cast<size_t>(c)] = static_cast<float>(1 / (range * deviation));
      offset.values<float>()[static_cast<size_t>(c)] = static_cast<float>(-mean / deviation);
    }
    const std::string scaled = fresh_name(graph, input.name + ".scaled"),
                      normalised = fresh_name(graph, input.name + ".normalised");
    replace_value(graph, input.name, normalised);
    graph.constants[input.name + ".factor"] =
        factor.dtype() == input.spec.dtype ? factor : factor.cast(input.spec.dtype);
    graph.constants[input.name + ".offset"] =
        offset.dtype() == input.spec.dtype ? offset : offset.cast(input.spec.dtype);
    graph.nodes.insert(graph.nodes.begin(), {{"Mul", scaled, {input.name, input.name + ".factor"}, {scaled}, {}},
                                             {"Add", normalised, {scaled, input.name + ".offset"}, {normalised}, {}}});
    return;
  }
}

// The network with these weights as its initial values.
Graph with_weights(Graph graph, const NamedTensors& weights) {
  for (const GraphInput& input : graph.inputs) {
    if (!input.parameter) continue;
    const auto found = std::ranges::find(weights, input.name, &NamedTensors::value_type::first);
    if (found == weights.end()) throw Error("[export] there are no weights '{}'", input.name);
    if (!(found->second.shape() == input.spec.shape))
      throw Error("[export] the weights '{}' are {}; the network wants {}", input.name,
                  to_string(TensorSpec{found->second.dtype(), found->second.shape()}), to_string(input.spec));
    graph.initial[input.name] = input.spec.dtype == DType::f32 ? found->second : found->second.cast(input.spec.dtype);
  }
  return graph;
}

void write_network(const Json& fields, const NamedTensors& weights, bool byte_pixels, const std::string& file) {
  Json in_f32 = fields;  // the master weights, whatever was computed in
  in_f32["dtype"] = "f32";
  Graph graph = with_weights(bare_network(in_f32, fields.at("network"), 1, Mode::inference), weights);
  const bool takes_samples = fields.at("discriminator") == "";  // a generator takes noise
  if (takes_samples && (byte_pixels || fields.at("normalise") != ""))
    insert_normalisation(graph, normalisation_of(fields), byte_pixels ? 255 : 1);
  record_trainable(graph);
  write_onnx(graph, file);
}

// The whole of it, as one process would go on from it: where ranks differ, the means.
Checkpoint read_whole_checkpoint(const std::string& file) {
  Checkpoint saved = read_checkpoint(file);
  const std::string id = Json::parse(saved.about).value("parts", "");
  const size_t part = id.empty() ? std::string::npos : file.rfind("." + id + ".r");
  if (part != std::string::npos)
    throw UsageError("[checkpoint] {} is the part of one rank; legal: {}", file, file.substr(0, part));
  read_parts(file, saved, 0, 1);
  return saved;
}

}  // namespace

void export_trained(const Json& fields, const TrainingSettings& settings, const ParameterSet& set,
                    const std::string& file) {
  if (file.ends_with(".npz"))
    write_npz(file, canonical_parameters(set));
  else if (file.ends_with(".onnx"))
    write_network(fields, canonical_parameters(set), gives_byte_pixels(settings.test->data()), file);
  else
    throw UsageError("[train] --export {}: legal are names that end in .onnx or .npz", file);
}

void export_checkpoint(const std::string& checkpoint, const std::string& file) try {
  if (!file.ends_with(".onnx") && !file.ends_with(".npz"))
    throw UsageError("[checkpoint] {} becomes {}; legal are names that end in .onnx or .npz", checkpoint, file);
  Checkpoint saved = read_whole_checkpoint(checkpoint);
  if (file.ends_with(".npz")) {
    saved.tensors.emplace_back("about",
                               Tensor::view(DType::u8, {static_cast<Index>(saved.about.size())}, saved.about.data()));
    write_npz(file, saved.tensors);
    return;
  }
  const Json about = Json::parse(saved.about), &fields = about.at("identity");
  const std::string start = fields.at("discriminator") == "" ? "parameter " : "generator parameter ";
  NamedTensors weights;
  for (const auto& [name, tensor] : saved.tensors)
    if (name.starts_with(start)) weights.emplace_back(name.substr(start.size()), tensor);
  try {
    write_network(fields, weights, about.at("byte_pixels"), file);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw error.within("[checkpoint] " + checkpoint);
  }
} catch (const Json::exception& error) {
  throw Error("[checkpoint] {} does not say what is needed: {}", checkpoint, error.what());
}

void check_export(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  const std::string temporary = file + ".part";
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  if (std::filesystem::is_directory(file, ignored)) throw Error("[train] --export {} is a folder", file);
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) throw Error("[train] --export {} cannot be written: {}", file, std::strerror(errno));
  close(descriptor);
  unlink(temporary.c_str());
}

}  // namespace d5
