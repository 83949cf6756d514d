// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/known.hpp"

#include <algorithm>
#include <charconv>

namespace d5 {
namespace {

constexpr Index small = 1024;  // elements: shapes and what networks compute from them

template <class T>
std::optional<std::vector<T>> number_list(const Attributes& values, const std::string& name, const char* wanted) {
  const std::string text = values.text(name, "");
  if (text.empty()) return {};
  std::vector<T> list;
  if (text == "none") return list;
  for (const char *at = text.data(), *end = at + text.size();; ++at) {
    T number{};
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (next != end && std::string_view("x: ").find(*next) == std::string_view::npos))
      throw UsageError("[operator] {} is '{}'; write {} with x between them, or none for an empty list", name, text,
                       wanted);
    list.push_back(number);
    if (next == end) return list;
    at = next;
  }
}

}  // namespace

std::vector<Index> integers(const Tensor& tensor) {
  if (tensor.dtype() == DType::i32) {
    const auto values = tensor.values<int32_t>();
    return {values.begin(), values.end()};
  }
  const auto values = tensor.values<int64_t>();
  return {values.begin(), values.end()};
}

void check_index_type(const TensorSpec& spec, std::string_view name, std::string_view place) {
  if (spec.dtype != DType::i32 && spec.dtype != DType::i64)
    throw Error("{} {} is of type {}; legal: i32, i64", place, name, d5::name(spec.dtype));
}

std::vector<Index> known_integers(const TensorSpec& spec, std::string_view name, std::string_view place) {
  check_index_type(spec, name, place);
  if (spec.shape.rank() > 1)
    throw Error("{} {} is {}, of rank {}; a list is wanted", place, name, to_string(spec.shape), spec.shape.rank());
  if (!spec.known) throw UnknownValue("{} the value of {} must be known before the run; it is not", place, name);
  return integers(*spec.known);
}

Index known_integer(const TensorSpec& spec, std::string_view name, std::string_view place) {
  const auto list = known_integers(spec, name, place);
  if (list.size() != 1) throw Error("{} {} has {} values; one is wanted", place, name, list.size());
  return list[0];
}

std::vector<TensorSpec> known_specs(const std::vector<Tensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const Tensor& tensor : tensors) specs.push_back(tensor.present() ? known_spec(tensor) : TensorSpec::absent());
  return specs;
}

std::vector<TensorSpec> with_known(const Operator& op, SpecSpan in, std::vector<TensorSpec> out) {
  const auto is_small = [](const TensorSpec& spec) { return spec.elements() <= small && spec.dtype != DType::string; };
  const auto is_known = [&](const TensorSpec& spec) { return !spec.present || (spec.known && is_small(spec)); };
  if (!std::ranges::all_of(in, is_known) || !std::ranges::all_of(out, is_small)) return out;
  Context c;
  for (const TensorSpec& spec : in) {
    c.inputs.push_back(spec.present ? spec.known->cast(compute_dtype(spec.dtype)) : Tensor());
    c.input_types.push_back(spec.dtype);
  }
  for (const TensorSpec& spec : out) c.outputs.emplace_back(compute_dtype(spec.dtype), spec.shape);
  op.forward(c);
  for (size_t i = 0; i < out.size(); ++i)
    out[i].known = std::make_shared<const Tensor>(c.outputs[i].cast(out[i].dtype));
  return out;
}

TensorSpec known_spec(Tensor value) {
  return {value.dtype(), value.shape(), std::make_shared<const Tensor>(std::move(value))};
}

TensorSpec known_spec(const std::vector<Index>& list) {
  return known_spec(Tensor::from<int64_t>({static_cast<Index>(list.size())}, list));
}

OperatorInput known_input(const std::vector<Index>& list) {
  return {.spec = known_spec(list), .differentiable = false};
}
OperatorInput known_scalar(Index value) {
  return {.spec = known_spec(Tensor::from<int64_t>({}, {value})), .differentiable = false};
}
OperatorInput absent_input() { return {.spec = TensorSpec::absent(), .differentiable = false}; }

std::optional<std::vector<Index>> integer_list(const Attributes& values, const std::string& name) {
  return number_list<Index>(values, name, "integers");
}
std::optional<std::vector<double>> real_list(const Attributes& values, const std::string& name) {
  return number_list<double>(values, name, "numbers");
}
OperatorInput list_input(const Attributes& values, const std::string& name) {
  const auto list = integer_list(values, name);
  return list ? known_input(*list) : absent_input();
}

}  // namespace d5
