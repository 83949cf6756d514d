// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/machine_file.hpp"

#include <toml++/toml.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;

std::string place(const fs::path& file, const toml::source_region& at) {
  return fmt::format("[machine] {}:{}:{}", file.string(), at.begin.line, at.begin.column);
}

nlohmann::json text(const toml::node& value, const std::string& where, std::string_view key) {
  if (const auto given = value.value_exact<std::string>()) return *given;
  throw UsageError("{}: {} must be a text in quotes", where, key);
}

nlohmann::json amount(const toml::node& value, const std::string& where, std::string_view key) {
  const auto given = value.value<double>();
  if (!value.is_number() || !given || !(*given >= 0)) throw UsageError("{}: {} must be a number >= 0", where, key);
  return *given;
}

nlohmann::json year(const toml::node& value, const std::string& where, std::string_view key) {
  const auto given = value.value_exact<int64_t>();
  if (!given || *given < 1970 || *given > 2100)
    throw UsageError("{}: {} must be a whole number from 1970 to 2100", where, key);
  return *given;
}

using Read = nlohmann::json (*)(const toml::node&, const std::string& where, std::string_view key);
const std::map<std::string, Read, std::less<>> keys = {{"name", text}, {"price_per_hour", amount}, {"currency", text},
                                                       {"year", year}, {"tdp_watts", amount},      {"note", text}};

}  // namespace

fs::path find_machine_file() {
  if (const char* given = std::getenv("D5_MACHINE"); given && *given) {
    if (!fs::is_regular_file(given)) throw UsageError("[machine] D5_MACHINE names no file: {}", given);
    return given;
  }
  std::error_code ignored;
  if (fs::is_regular_file("machine.toml", ignored)) return "machine.toml";
  if (const char* home = std::getenv("HOME"); home && *home) {
    const fs::path path = fs::path(home) / ".config/d5/machine.toml";
    if (fs::is_regular_file(path, ignored)) return path;
  }
  return {};
}

nlohmann::json read_machine_file(const fs::path& path) {
  toml::table table;
  try {
    table = toml::parse_file(path.string());
  } catch (const toml::parse_error& e) {
    throw UsageError("{}: {}", place(path, e.source()), e.description());
  }
  nlohmann::json facts = nlohmann::json::object();
  for (const auto& [key, value] : table) {
    const auto known = keys.find(key.str());
    if (known == keys.end()) {
      std::vector<std::string> legal;
      for (const auto& [name, read] : keys) legal.push_back(name);
      fail_unknown(place(path, key.source()), "key", key.str(), legal);
    }
    facts[known->first] = known->second(value, place(path, value.source()), key.str());
  }
  return facts;
}

}  // namespace d5
