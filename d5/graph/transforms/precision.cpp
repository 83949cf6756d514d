// SPDX-License-Identifier: Apache-2.0
// Another float type for a whole network: every float input, parameter and constant has it, so every operator computes
// in it. Casts between float types become casts to it.
#include "d5/graph/transforms/precision.hpp"

#include "d5/graph/transform.hpp"

namespace d5 {
namespace {

bool is_plain_float(DType type) {
  return type == DType::f32 || type == DType::f64 || type == DType::f16 || type == DType::bf16;
}

// Attributes that name an element type by ONNX's number (Cast's "to", "dtype").
constexpr int64_t number_f32 = 1, number_f16 = 10, number_f64 = 11, number_bf16 = 16;
bool is_plain_float_number(int64_t number) {
  return number == number_f32 || number == number_f16 || number == number_f64 || number == number_bf16;
}
int64_t number_of(DType type) {
  return type == DType::f32   ? number_f32
         : type == DType::f16 ? number_f16
         : type == DType::f64 ? number_f64
                              : number_bf16;
}

class Precision final : public Transform {
 public:
  explicit Precision(const std::string& value) : type_(parse_dtype(value)) {
    if (!is_plain_float(type_))
      throw UsageError("[precision] {} is no type for networks; legal: f32, f64, f16, bf16", value);
  }
  static constexpr const char* about = "another float type for everything: precision:bf16";
  Graph apply(Graph graph) const override { return with_float_type(std::move(graph), type_); }

 private:
  DType type_;
};

}  // namespace

Graph with_float_type(Graph graph, DType type) {
  for (GraphInput& input : graph.inputs)
    if (is_plain_float(input.spec.dtype)) {
      input.spec.dtype = type;
      if (input.spec.known) input.spec.known = std::make_shared<const Tensor>(input.spec.known->cast(type));
    }
  for (auto* tensors : {&graph.constants, &graph.initial})
    for (auto& [name, tensor] : *tensors)
      if (is_plain_float(tensor.dtype())) tensor = tensor.cast(type);
  for (Node& node : graph.nodes)
    for (const auto& [name, value] : std::map(node.attributes.values())) {
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value))
        node.attributes.set(name, std::make_shared<const Graph>(with_float_type(**body, type)));
      if (const auto* tensor = std::get_if<std::shared_ptr<const Tensor>>(&value);
          tensor && is_plain_float((*tensor)->dtype()))
        node.attributes.set(name, std::make_shared<const Tensor>((*tensor)->cast(type)));
      if (const auto* number = std::get_if<int64_t>(&value);
          number && (name == "to" || name == "dtype") && is_plain_float_number(*number))
        node.attributes.set(name, number_of(type));
    }
  return graph;
}

D5_REGISTER(transforms, "precision", Precision);
}  // namespace d5
