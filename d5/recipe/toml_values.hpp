// SPDX-License-Identifier: Apache-2.0
// From TOML nodes to plain values, each with its place for errors. Inner part of recipe/.
#pragma once

#include <toml++/toml.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace d5 {

// "quick.toml:3:1"
std::string place_of(const std::string& file, const toml::source_region& region);

// A table's members in the order written: toml++ sorts them by name.
struct TomlMember {
  std::string key;
  std::string place;
  const toml::node* value;
};
std::vector<TomlMember> members(const toml::table& table, const std::string& file);

// Text, number, boolean, or a table of these as an object. UsageError at `place` for an array, a date, or no finite
// number.
nlohmann::json plain_value(const toml::node& node, const std::string& place);
// The values of an axis: at least one, each plain.
std::vector<nlohmann::json> axis_values(const toml::array& array, const std::string& place);

// The node as a type, or a UsageError that says what was given.
const toml::table& as_table(const TomlMember& member);
std::string as_text(const TomlMember& member);

}  // namespace d5
