// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/types.hpp"

#include "d5/graph/onnx/element_types.hpp"

namespace d5 {
namespace {

void take_shape(const pb::Shape& shape, GraphInput& input) {
  if (shape.dim_size() > 64) throw Error("it has {} axes; at most 64 are supported", shape.dim_size());
  std::vector<Index> sizes;
  bool symbolic = false;
  for (int axis = 0; axis < shape.dim_size(); ++axis) {
    const pb::Shape::Dimension& size = shape.dim(axis);
    std::string symbol;
    if (size.has_dim_value()) {
      if (size.dim_value() < 0) throw Error("axis {} has the size {}; none is negative", axis, size.dim_value());
    } else {
      symbol =
          size.has_dim_param() && !size.dim_param().empty() ? size.dim_param() : fmt::format("{}.{}", input.name, axis);
      symbolic = true;
    }
    sizes.push_back(symbol.empty() ? size.dim_value() : 1);
    input.symbols.push_back(symbol);
  }
  if (!symbolic) input.symbols.clear();
  input.spec.shape = Shape(std::move(sizes));
}

}  // namespace

GraphInput input_from(const pb::ValueInfo& info) {
  GraphInput input{.name = info.name()};
  using Case = pb::ValueType::ValueCase;
  switch (info.type().value_case()) {
    case Case::kTensorType: {
      const auto& tensor = info.type().tensor_type();
      input.spec.dtype = element_type(tensor.elem_type());
      input.differentiable = is_float(input.spec.dtype);
      if (tensor.has_shape())
        take_shape(tensor.shape(), input);
      else
        input.symbols = {"*"};
      return input;
    }
    case Case::kSequenceType: input.kind = ValueKind::sequence; break;
    case Case::kOptionalType: input.kind = ValueKind::optional; break;
    case Case::VALUE_NOT_SET:  // inputs of the bodies of Loop and Scan may leave it out
    default: input.kind = ValueKind::other;
  }
  input.spec = TensorSpec::absent();
  input.differentiable = false;
  return input;
}

void put_type(pb::ValueInfo& info, const TensorSpec& spec, const std::vector<std::string>& symbols) {
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(element_code(spec.dtype));
  tensor.clear_shape();
  if (symbols.size() == 1 && symbols[0] == "*") return;
  auto& shape = *tensor.mutable_shape();
  for (size_t axis = 0; axis < spec.shape.rank(); ++axis) {
    auto& size = *shape.add_dim();
    if (axis < symbols.size() && !symbols[axis].empty())
      size.set_dim_param(symbols[axis]);
    else
      size.set_dim_value(spec.shape[axis]);
  }
}

bool put_input(pb::ValueInfo& info, const GraphInput& input) {
  info.set_name(input.name);
  if (input.kind != ValueKind::tensor) {
    if (!info.has_type() && input.kind != ValueKind::other)
      throw Error("[onnx] input '{}' is no tensor and its type is not known", input.name);
    return false;
  }
  if (info.type().has_tensor_type()) {
    const GraphInput before = input_from(info);
    // Another binding of the same symbols is not a change.
    bool same = before.spec.dtype == input.spec.dtype && before.symbols == input.symbols &&
                before.spec.shape.rank() == input.spec.shape.rank();
    for (size_t axis = 0; same && axis < input.spec.shape.rank(); ++axis)
      same = (axis < input.symbols.size() && !input.symbols[axis].empty()) ||
             before.spec.shape[axis] == input.spec.shape[axis];
    if (same) return false;
  }
  put_type(info, input.spec, input.symbols);
  return true;
}

}  // namespace d5
