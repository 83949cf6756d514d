// SPDX-License-Identifier: Apache-2.0
// Strings: lists of them as attributes, and numbers as text, as ONNX Cast has them.
#pragma once

#include <string>
#include <vector>

#include "d5/core/attributes.hpp"
#include "d5/core/tensor.hpp"

namespace d5 {

// The attribute, or nothing where it is not there; UsageError where it is no list of words.
std::vector<std::string> text_list(const Attributes&, const std::string& name, std::string_view place);

// "-1.5", "1e-05", "+INF", "nan" (in any case, spaces around it): the value. Error otherwise.
double number_of(const std::string& text, std::string_view place);

// Strings to numbers; integers are read exactly.
void parse_numbers(const Tensor& strings, const Tensor& numbers, std::string_view place);
// Numbers to strings: the fewest digits that give back the value of the element type; fixed notation from 1e-4 to 1e16,
// "True" and "False" for bool.
void print_numbers(const Tensor& numbers, DType type, const Tensor& strings);

}  // namespace d5
