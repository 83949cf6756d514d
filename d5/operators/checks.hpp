// SPDX-License-Identifier: Apache-2.0
// What infer() of every operator checks. `place` is the tag of the operator: "[gemm]".
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "d5/core/attributes.hpp"
#include "d5/core/tensor.hpp"

namespace d5 {

using SpecSpan = std::span<const TensorSpec>;

// UsageError for an attribute that the operator does not have.
void check_attributes(const Attributes&, std::initializer_list<std::string> legal, std::string_view place);

// The first `least` inputs are there, there are at most `most`, and none has more elements than a tensor can hold.
void check_inputs(SpecSpan in, size_t least, size_t most, std::string_view place);
void check_rank(const TensorSpec&, std::string_view name, size_t rank, std::string_view place);
void check_type(const TensorSpec&, std::initializer_list<DType> legal, std::string_view place);
void check_same_type(SpecSpan in, std::string_view place);  // of the inputs that are there

// The spec of an output; Error with the operator's tag where it has more elements than a tensor can hold.
TensorSpec output_spec(DType, std::vector<Index> sizes, std::string_view place);

inline bool has(SpecSpan in, size_t i) { return i < in.size() && in[i].present; }

}  // namespace d5
