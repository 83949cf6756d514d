// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/torch/operator_table.hpp"

#include <map>

namespace d5::libtorch {
namespace {

std::map<std::string, Prepare>& table() {
  static std::map<std::string, Prepare> operators;
  return operators;
}

}  // namespace

void add_operator(const std::string& op, Prepare prepare) { table()[op] = std::move(prepare); }

const Prepare* find_operator(const std::string& op) {
  const auto found = table().find(op);
  return found == table().end() ? nullptr : &found->second;
}

std::optional<std::vector<int64_t>> Setup::integers(size_t input, const std::string& attribute) const {
  if (has(input)) {
    if (!inputs[input].known) return {};
    const Tensor wide = inputs[input].known->cast(DType::i64);
    const auto values = wide.values<int64_t>();
    return std::vector<int64_t>(values.begin(), values.end());
  }
  if (!attribute.empty() && attributes.has(attribute)) return attributes.integers(attribute);
  return {};
}

std::optional<double> Setup::real(size_t input, double otherwise) const {
  if (!has(input)) return otherwise;
  if (!inputs[input].known) return {};
  return inputs[input].known->cast(DType::f64).values<double>()[0];
}

Prepared Prepared::rounds_between() && {
  return std::move(*this).narrow("several functions, each of which stores its result in the type of the tensors",
                                 "several functions, each of which stores its result in the type of the tensors");
}

Prepared Prepared::narrow(std::string forward, std::string backward) && {
  narrow_forward = std::move(forward);
  narrow_backward = std::move(backward);
  return std::move(*this);
}

}  // namespace d5::libtorch
