// SPDX-License-Identifier: Apache-2.0
#include "d5/recipe/toml_values.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "a text";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "a boolean";
    case toml::node_type::date: return "a date";
    case toml::node_type::time: return "a time";
    case toml::node_type::date_time: return "a date and time";
    case toml::node_type::none: break;
  }
  return "nothing";
}

}  // namespace

std::string place_of(const std::string& file, const toml::source_region& region) {
  return fmt::format("{}:{}:{}", file, region.begin.line, region.begin.column);
}

std::vector<TomlMember> members(const toml::table& table, const std::string& file) {
  std::vector<std::pair<toml::source_position, TomlMember>> found;
  for (const auto& [key, value] : table) {
    found.push_back({key.source().begin, {std::string(key.str()), place_of(file, key.source()), &value}});
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.line, a.first.column) < std::tie(b.first.line, b.first.column);
  });
  std::vector<TomlMember> result;
  for (auto& entry : found) result.push_back(std::move(entry.second));
  return result;
}

nlohmann::json plain_value(const toml::node& node, const std::string& place) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  if (const auto* number = node.as_floating_point()) {
    if (!std::isfinite(number->get()))
      throw UsageError("[recipe] {}: value {}; legal: a finite number", place, number->get());
    return number->get();
  }
  if (const auto* table = node.as_table()) {
    nlohmann::json result = nlohmann::json::object();
    for (const auto& [key, value] : *table) result[std::string(key.str())] = plain_value(value, place);
    return result;
  }
  if (node.is_array()) {
    throw UsageError(
        "[recipe] {}: an array is an axis and stands directly under [axes] or [[cases]]; write sizes as text (\"3x3\")",
        place);
  }
  throw UsageError("[recipe] {}: {}; legal: text, number, boolean, table", place, type_name(node));
}

std::vector<nlohmann::json> axis_values(const toml::array& array, const std::string& place) {
  if (array.empty()) throw UsageError("[recipe] {}: an empty axis; legal: at least one value", place);
  std::vector<nlohmann::json> result;
  for (const toml::node& node : array) result.push_back(plain_value(node, place));
  return result;
}

const toml::table& as_table(const TomlMember& member) {
  if (const toml::table* table = member.value->as_table()) return *table;
  throw UsageError("[recipe] {}: '{}' is {}; legal: a table", member.place, member.key, type_name(*member.value));
}

std::string as_text(const TomlMember& member) {
  if (const auto* text = member.value->as_string()) return text->get();
  throw UsageError("[recipe] {}: '{}' is {}; legal: a text", member.place, member.key, type_name(*member.value));
}

}  // namespace d5
