// SPDX-License-Identifier: Apache-2.0
// Another float type for a whole network: every float input, parameter and constant has it, so every operator computes
// in it. Casts between float types become casts to it.
#include "d5/graph/transforms/precision.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "d5/graph/edit.hpp"
#include "d5/graph/transform.hpp"
#include "d5/operators/onnx_type.hpp"

namespace d5 {
namespace {

// Attributes that name an element type, by ONNX's number or as text.
constexpr std::array type_attributes{"to", "dtype", "output_dtype", "output_datatype"};

// What makes an f32 where the attribute is left out.
const std::map<std::string, std::string>& f32_by_default() {
  static const std::map<std::string, std::string> attributes{{"RandomNormal", "dtype"},
                                                             {"RandomUniform", "dtype"},
                                                             {"HannWindow", "output_datatype"},
                                                             {"HammingWindow", "output_datatype"},
                                                             {"BlackmanWindow", "output_datatype"},
                                                             {"MelWeightMatrix", "output_datatype"}};
  return attributes;
}

// Which result is an f32 whatever goes in; the outputs of the node where there is none.
size_t always_f32(const Node& node) {
  static const std::map<std::string, size_t> results{{"TfIdfVectorizer", 0},
                                                     {"ai.onnx.ml:FeatureVectorizer", 0},
                                                     {"ai.onnx.ml:LinearClassifier", 1},
                                                     {"ai.onnx.ml:LinearRegressor", 0},
                                                     {"ai.onnx.ml:Normalizer", 0},
                                                     {"ai.onnx.ml:OneHotEncoder", 0},
                                                     {"ai.onnx.ml:Scaler", 0},
                                                     {"ai.onnx.ml:TreeEnsembleClassifier", 1},
                                                     {"ai.onnx.ml:TreeEnsembleRegressor", 0}};
  if (node.op == "ai.onnx.ml:LabelEncoder" && node.attributes.has("values_floats")) return 0;
  const auto found = results.find(node.op);
  return found == results.end() ? node.outputs.size() : found->second;
}

// Whoever reads such a result reads the type of everything else.
void cast_results(Graph& graph, DType type) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const size_t result = always_f32(graph.nodes[n]);
    if (result >= graph.nodes[n].outputs.size() || graph.nodes[n].outputs[result].empty()) continue;
    const std::string name = graph.nodes[n].outputs[result], own = fresh_name(graph, name + "/f32");
    graph.nodes[n].outputs[result] = own;
    insert_node(graph, n + 1,
                {.op = "Cast",
                 .name = fresh_name(graph, graph.nodes[n].name + "/Cast"),
                 .inputs = {own},
                 .outputs = {name},
                 .attributes = {{"to", onnx_number(type)}}});
    ++n;
  }
}

std::shared_ptr<const Tensor> shared(Tensor tensor) { return std::make_shared<const Tensor>(std::move(tensor)); }

// What a node says in words that only f32 has.
void name_types(Node& node, DType type) {
  Attributes& a = node.attributes;
  if (a.has("value_float") || a.has("value_floats")) {
    const bool scalar = a.has("value_float");
    const std::vector<double> values = scalar ? std::vector{a.real("value_float", 0)} : a.reals("value_floats");
    a.erase("value_float");
    a.erase("value_floats");
    const Shape shape = scalar ? Shape{} : Shape{static_cast<Index>(values.size())};
    a.set("value", shared(Tensor::from(shape, values).cast(DType::f32)));
  }
  if (node.op == "ConstantOfShape" && !a.has("value")) a.set("value", shared(Tensor::scalar(0, DType::f32)));
  if (const auto found = f32_by_default().find(node.op); found != f32_by_default().end() && !a.has(found->second))
    a.set(found->second, onnx_number(DType::f32));
  const bool gives_statistics = node.op == "LayerNormalization" && node.outputs.size() > 1;
  if (gives_statistics && type == DType::f64) a.set("stash_type", onnx_number(type));
}

class Precision final : public Transform {
 public:
  explicit Precision(const std::string& value) : type_(parse_dtype(value)) {
    if (!is_network_float(type_))
      throw UsageError("[precision] {} is no type for networks; legal: f32, f64, f16, bf16", value);
  }
  static constexpr const char* about = "another float type for everything: precision:bf16";
  Graph apply(Graph graph) const override { return with_float_type(std::move(graph), type_); }

 private:
  DType type_;
};

}  // namespace

bool is_network_float(DType type) {
  return type == DType::f32 || type == DType::f64 || type == DType::f16 || type == DType::bf16;
}

Graph with_float_type(Graph graph, DType type) {
  for (GraphInput& input : graph.inputs)
    if (is_network_float(input.spec.dtype)) {
      input.spec.dtype = type;
      if (input.spec.known) input.spec.known = shared(input.spec.known->cast(type));
    }
  for (auto* tensors : {&graph.constants, &graph.initial})
    for (auto& [name, tensor] : *tensors)
      if (is_network_float(tensor.dtype())) tensor = tensor.cast(type);
  for (Node& node : graph.nodes) {
    name_types(node, type);
    for (const auto& [name, value] : std::map(node.attributes.values())) {
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value))
        node.attributes.set(name, std::make_shared<const Graph>(with_float_type(**body, type)));
      if (const auto* tensor = std::get_if<std::shared_ptr<const Tensor>>(&value);
          tensor && is_network_float((*tensor)->dtype()))
        node.attributes.set(name, shared((*tensor)->cast(type)));
      if (std::ranges::find(type_attributes, name) == type_attributes.end()) continue;
      if (const auto named = type_attribute(node.attributes, name, "[precision]"); named && is_network_float(*named))
        node.attributes.set(name, onnx_number(type));
    }
  }
  if (type != DType::f32) cast_results(graph, type);
  return graph;
}

D5_REGISTER(transforms, "precision", Precision);
}  // namespace d5
