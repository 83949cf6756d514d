// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/checks.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace d5 {
namespace {

constexpr Index most_elements = Index{1} << 56;  // as in Tensor: bits x elements stays below 2^63

void check_elements(const Shape& shape, std::string_view place) {
  if (shape.elements() > most_elements)
    throw Error("{} {} has {} elements; a tensor holds at most {}", place, to_string(shape), shape.elements(),
                most_elements);
}

}  // namespace

void check_attributes(const Attributes& attributes, std::initializer_list<std::string> legal, std::string_view place) {
  attributes.check_names({legal.begin(), legal.size()}, place);
}

void check_inputs(SpecSpan in, size_t least, size_t most, std::string_view place) {
  for (size_t i = 0; i < least; ++i)
    if (!has(in, i)) throw Error("{} input {} is missing; {} to {} inputs are wanted", place, i, least, most);
  if (in.size() > most) throw Error("{} {} inputs given; {} to {} are wanted", place, in.size(), least, most);
  for (const TensorSpec& spec : in)
    if (spec.present) check_elements(spec.shape, place);
}

void check_rank(const TensorSpec& spec, std::string_view name, size_t rank, std::string_view place) {
  if (spec.shape.rank() != rank)
    throw Error("{} {} is {}, of rank {}; rank {} is wanted", place, name, to_string(spec.shape), spec.shape.rank(),
                rank);
}

void check_type(const TensorSpec& spec, std::initializer_list<DType> legal, std::string_view place) {
  if (std::ranges::find(legal, spec.dtype) != legal.end()) return;
  std::vector<std::string_view> names;
  for (const DType type : legal) names.push_back(name(type));
  throw Error("{} element type {} is not defined by ONNX; legal: {}", place, name(spec.dtype), fmt::join(names, ", "));
}

void check_same_type(SpecSpan in, std::string_view place) {
  for (const TensorSpec& spec : in)
    if (spec.present && spec.dtype != in[0].dtype)
      throw Error("{} inputs are of types {} and {}; one type is wanted", place, name(in[0].dtype), name(spec.dtype));
}

TensorSpec output_spec(DType type, std::vector<Index> sizes, std::string_view place) {
  try {
    TensorSpec spec{type, Shape(std::move(sizes))};
    check_elements(spec.shape, place);
    return spec;
  } catch (const Error& error) {
    throw error.within(fmt::format("{} output", place));
  }
}

}  // namespace d5
