// SPDX-License-Identifier: Apache-2.0
// Values of the command line: "512,1024" is an axis of two.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace d5 {

nlohmann::json parse_value(const std::string& text);                // an integer, a real, true or false, or a word
std::vector<nlohmann::json> parse_values(const std::string& text);  // separated by commas

}  // namespace d5
