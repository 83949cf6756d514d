// SPDX-License-Identifier: Apache-2.0
// Values that are known before the run: the shape input of Reshape, the axes of a reduction. TensorSpec::known carries
// them through infer(); on the command line they are lists of numbers with x between them, "2x-1x3".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {

// A shape depends on a value that only the run gives: the graph cannot be laid out before it, but it can be evaluated.
class UnknownValue : public Error {
  using Error::Error;
};

// The elements of a tensor of i32 or i64.
std::vector<Index> integers(const Tensor&);

// The spec is of i32 or i64.
void check_index_type(const TensorSpec&, std::string_view name, std::string_view place);
// The same, and its value is known and has at most one axis: the list. Error says what is missing.
std::vector<Index> known_integers(const TensorSpec&, std::string_view name, std::string_view place);
Index known_integer(const TensorSpec&, std::string_view name, std::string_view place);  // a scalar or a list of one

// Specs that carry the values of these tensors, absent ones included.
std::vector<TensorSpec> known_specs(const std::vector<Tensor>&);

// `out` of infer(): where every input is known and all are small, the operator itself is run and its results are known.
std::vector<TensorSpec> with_known(const Operator&, SpecSpan in, std::vector<TensorSpec> out);

// ---- for describe()
TensorSpec known_spec(Tensor value);
TensorSpec known_spec(const std::vector<Index>& list);  // i64, one axis
OperatorInput known_input(const std::vector<Index>& list);
OperatorInput known_scalar(Index value);
OperatorInput absent_input();

// The parameter as a list: "2x-1x3" (a space or ':' separates too); "none" is the empty list, "" is no list at all.
std::optional<std::vector<Index>> integer_list(const Attributes& values, const std::string& name);
std::optional<std::vector<double>> real_list(const Attributes& values, const std::string& name);
// known_input(list), or absent_input() where there is none.
OperatorInput list_input(const Attributes& values, const std::string& name);

}  // namespace d5
