// SPDX-License-Identifier: Apache-2.0
#include "d5/report/case_fields.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>

namespace d5 {
namespace {

constexpr std::array<std::string_view, 6> first = {"operator", "network", "dataset", "m", "n", "k"};
constexpr std::array<std::string_view, 5> last = {"dtype", "pass", "math", "threads", "backend"};

int rank(const std::string& name) {
  const auto place = [&](const auto& list) {
    return static_cast<int>(std::find(list.begin(), list.end(), name) - list.begin());
  };
  if (const int p = place(first); p < static_cast<int>(first.size())) return p;
  if (const int p = place(last); p < static_cast<int>(last.size())) return 200 + p;
  return 100;
}

}  // namespace

std::vector<std::string> field_names(std::span<const Record> records) {
  std::set<std::string> names;
  for (const Record& r : records) {
    for (const auto& [name, value] : r.fields.items()) names.insert(name);
  }
  names.erase("kind");
  std::vector<std::string> result(names.begin(), names.end());
  std::stable_sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return result;
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return text;
}

std::string field_text(const nlohmann::json& fields, const std::string& name) {
  const auto found = fields.find(name);
  if (found == fields.end()) return {};
  if (found->is_string()) return one_line(found->get<std::string>());
  return found->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string case_name(const Record& record) {
  std::string result = record.kind;
  for (const std::string& name : field_names({&record, 1})) {
    result += name == "operator" ? " " : " " + name + "=";
    result += field_text(record.fields, name);
  }
  return result;
}

}  // namespace d5
