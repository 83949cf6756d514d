// SPDX-License-Identifier: Apache-2.0
#include "d5/recipe/values.hpp"

#include <charconv>

namespace d5 {

nlohmann::json parse_value(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  const char *begin = text.data(), *end = begin + text.size();
  int64_t integer = 0;
  if (const auto [at, error] = std::from_chars(begin, end, integer); error == std::errc() && at == end) return integer;
  double real = 0;
  const bool numeric = text.find_first_of("0123456789") != std::string::npos;  // "nan" and "inf" are words here
  if (const auto [at, error] = std::from_chars(begin, end, real); numeric && error == std::errc() && at == end)
    return real;
  return text;
}

std::vector<nlohmann::json> parse_values(const std::string& text) {
  std::vector<nlohmann::json> values;
  size_t begin = 0;
  for (size_t comma = text.find(','); comma != std::string::npos; comma = text.find(',', begin)) {
    values.push_back(parse_value(text.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  values.push_back(parse_value(text.substr(begin)));
  return values;
}

}  // namespace d5
