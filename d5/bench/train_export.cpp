// SPDX-License-Identifier: Apache-2.0
// A trained network for others. As ONNX it takes what the data set held: where pixels were bytes, values from 0 to 255
// go in, and the graph itself does (x / 255 - mean) / deviation. As .npz it is the weights by name.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "d5/bench/train_case.hpp"
#include "d5/bench/train_data.hpp"
#include "d5/datasets/decoder.hpp"
#include "d5/datasets/npy.hpp"
#include "d5/graph/edit.hpp"
#include "d5/graph/onnx/write.hpp"
#include "d5/graph/trainable.hpp"

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

}  // namespace

void export_trained(const Json& fields, const TrainingSettings& settings, const ParameterSet& set,
                    const std::string& file) {
  if (file.ends_with(".npz")) {
    write_npz(file, canonical_parameters(set));
    return;
  }
  if (!file.ends_with(".onnx"))
    throw UsageError("[train] --export {}: legal are names that end in .onnx or .npz", file);
  Json in_f32 = fields;  // the master weights, whatever was computed in
  in_f32["dtype"] = "f32";
  Graph graph = with_weights(bare_network(in_f32, fields.at("network"), 1, Mode::inference), set);
  const bool bytes = has_byte_pixels(settings.test->data().fields()) || holds_encoded(settings.test->data());
  const bool takes_samples = fields.at("discriminator") == "";  // a generator takes noise
  if (takes_samples && (bytes || fields.at("normalise") != ""))
    insert_normalisation(graph, normalisation_of(fields), bytes ? 255 : 1);
  record_trainable(graph);
  write_onnx(graph, file);
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
