// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/operator.hpp"

namespace d5 {

const Tensor& Context::output(size_t i, DType type, Shape shape) {
  if (outputs.size() <= i) outputs.resize(i + 1);
  outputs[i] = Tensor(type, std::move(shape));
  return outputs[i];
}

double input_bytes(std::span<const TensorSpec> specs) {
  double bytes = 0;
  for (const TensorSpec& spec : specs) bytes += spec.present ? spec.bytes() : 0;
  return bytes;
}

void Operator::backward(Context&) const { throw Error("[operator] this operator has no gradient"); }
bool Operator::forward_at(const Context&, size_t, std::span<const Index>, std::span<double>) const { return false; }
bool Operator::backward_at(const Context&, size_t, std::span<const Index>, std::span<double>) const { return false; }
Tensor Operator::magnitude(const Context&, Pass, size_t) const { return {}; }
Tensor Operator::stored_magnitude(const Context&, Pass, size_t, DType) const { return {}; }
std::optional<Operator::Batch> Operator::batch(std::span<const TensorSpec>) const { return {}; }

Cost Operator::cost(std::span<const TensorSpec> in, Pass pass) const {
  const double inputs = input_bytes(in), outputs = input_bytes(infer(in));
  return {.flops = 0, .bytes = pass == Pass::forward ? inputs + outputs : 2 * inputs + outputs};
}

Rounding Operator::rounding(std::span<const TensorSpec> in, Pass, size_t) const {
  double elements = 0;
  for (const TensorSpec& spec : in) elements += spec.present ? static_cast<double>(spec.elements()) : 0;
  return {.terms = elements, .units = 8};
}

std::vector<Parameter> one_shape_parameters() { return {{"shape", "sizes of the input", std::string("64x1024")}}; }

OperatorCase describe_one_shape(const Attributes& values, DType type) {
  return {.inputs = {{.spec = {type, parse_shape(values.text("shape", ""))}}}};
}

std::vector<TensorSpec> OperatorCase::specs() const {
  std::vector<TensorSpec> all;
  for (const OperatorInput& input : inputs) all.push_back(input.spec);
  return all;
}

Attributes complete_values(std::string_view of, std::span<const Parameter> parameters, const Attributes& values) {
  std::vector<std::string> legal;
  Attributes complete;
  for (const Parameter& parameter : parameters) {
    legal.push_back(parameter.name);
    complete.set(parameter.name, parameter.otherwise);
  }
  values.check_names(legal, fmt::format("[{}]", of));
  for (const Parameter& parameter : parameters) {
    if (!values.has(parameter.name)) continue;
    Value value = values.values().at(parameter.name);
    // A number may stand for a list of one size, a whole number for a real, 0 and 1 for no and yes.
    if (const auto* given = std::get_if<int64_t>(&value)) {
      const int64_t integer = *given;
      if (std::holds_alternative<std::string>(parameter.otherwise)) value = std::to_string(integer);
      if (std::holds_alternative<double>(parameter.otherwise)) value = static_cast<double>(integer);
      if (std::holds_alternative<bool>(parameter.otherwise) && (integer == 0 || integer == 1)) value = integer == 1;
    }
    if (value.index() != parameter.otherwise.index())
      throw UsageError("[{}] {} is '{}'; a value like '{}' is wanted ({})", of, parameter.name, to_string(value),
                       to_string(parameter.otherwise), parameter.about);
    complete.set(parameter.name, std::move(value));
  }
  return complete;
}

Attributes complete_values(std::string_view op, const OperatorEntry& entry, const Attributes& values) {
  return complete_values(op, entry.parameters, values);
}

std::vector<int64_t> sizes(const Attributes& values, const std::string& name, size_t count) {
  std::vector<int64_t> list;
  try {
    list = parse_shape(values.text(name, "")).sizes();
  } catch (const Error&) {
    throw UsageError("[operator] {} is '{}'; write sizes with x between them, as in 3x3", name, values.text(name, ""));
  }
  if (list.size() == 1) list.resize(count, list[0]);
  if (list.size() != count)
    throw UsageError("[operator] {} is '{}'; {} sizes are wanted, or one for all", name, values.text(name, ""), count);
  return list;
}

}  // namespace d5
