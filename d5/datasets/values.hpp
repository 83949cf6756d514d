// SPDX-License-Identifier: Apache-2.0
// Samplers, augmentations and generators are made from named values; each class says which it has.
#pragma once

#include <string_view>

#include "d5/datasets/container.hpp"

namespace d5 {

// A whole number, or a real, that must lie in a range; UsageError otherwise.
int64_t integer_in(const Attributes&, const std::string& name, int64_t low, int64_t high, std::string_view place);
double real_in(const Attributes&, const std::string& name, double low, double high, std::string_view place);
// A text of which only a few are legal.
std::string one_of(const Attributes&, const std::string& name, const std::vector<std::string>& legal,
                   std::string_view place);

}  // namespace d5
