// SPDX-License-Identifier: Apache-2.0
#include "d5/core/attributes.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

template <class T>
const T* find(const std::map<std::string, Value>& values, const std::string& name, std::string_view wanted) {
  const auto found = values.find(name);
  if (found == values.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  if (!value) throw UsageError("[attribute] '{}' is '{}'; {} is wanted", name, to_string(found->second), wanted);
  return value;
}

}  // namespace

int64_t Attributes::integer(const std::string& name, int64_t otherwise) const {
  const auto* value = find<int64_t>(values_, name, "an integer");
  return value ? *value : otherwise;
}

double Attributes::real(const std::string& name, double otherwise) const {
  const auto found = values_.find(name);
  if (found != values_.end())
    if (const auto* integer = std::get_if<int64_t>(&found->second)) return static_cast<double>(*integer);
  const auto* value = find<double>(values_, name, "a number");
  return value ? *value : otherwise;
}

bool Attributes::flag(const std::string& name, bool otherwise) const {
  const auto found = values_.find(name);
  if (found != values_.end())
    if (const auto* integer = std::get_if<int64_t>(&found->second); integer && (*integer == 0 || *integer == 1))
      return *integer == 1;
  const auto* value = find<bool>(values_, name, "true or false");
  return value ? *value : otherwise;
}

std::string Attributes::text(const std::string& name, const std::string& otherwise) const {
  const auto* value = find<std::string>(values_, name, "a word");
  return value ? *value : otherwise;
}

std::vector<int64_t> Attributes::integers(const std::string& name, std::vector<int64_t> otherwise) const {
  const auto found = values_.find(name);
  if (found != values_.end())
    if (const auto* one = std::get_if<int64_t>(&found->second)) return {*one};
  const auto* value = find<std::vector<int64_t>>(values_, name, "a list of integers");
  return value ? *value : std::move(otherwise);
}

std::vector<double> Attributes::reals(const std::string& name, std::vector<double> otherwise) const {
  const auto found = values_.find(name);
  if (found != values_.end())
    if (const auto* whole = std::get_if<std::vector<int64_t>>(&found->second)) return {whole->begin(), whole->end()};
  const auto* value = find<std::vector<double>>(values_, name, "a list of numbers");
  return value ? *value : std::move(otherwise);
}

std::shared_ptr<const Tensor> Attributes::tensor(const std::string& name) const {
  const auto* value = find<std::shared_ptr<const Tensor>>(values_, name, "a tensor");
  return value ? *value : nullptr;
}

std::shared_ptr<const Graph> Attributes::graph(const std::string& name) const {
  const auto* value = find<std::shared_ptr<const Graph>>(values_, name, "a graph");
  return value ? *value : nullptr;
}

void Attributes::check_names(std::span<const std::string> legal, std::string_view place) const {
  for (const auto& [name, value] : values_)
    if (std::ranges::find(legal, name) == legal.end()) fail_unknown(place, "attribute", name, legal);
}

std::string to_string(const Value& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>)
          return v;
        else if constexpr (std::is_arithmetic_v<T>)
          return fmt::format("{}", v);
        else if constexpr (std::is_same_v<T, std::shared_ptr<const Tensor>>)
          return "tensor " + to_string(v->shape());
        else if constexpr (std::is_same_v<T, std::shared_ptr<const Graph>>)
          return "graph";
        else
          return fmt::format("{}", fmt::join(v, ","));
      },
      value);
}

nlohmann::json to_json(const Attributes& attributes) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : attributes.values())
    std::visit(
        [&json, &name = name](const auto& v) {
          if constexpr (
              requires { nlohmann::json(v); } && !requires { *v; })
            json[name] = v;
        },
        value);
  return json;
}

Attributes attributes_from_json(const nlohmann::json& json) {
  const auto all = [](const nlohmann::json& list, auto is) { return list.is_array() && std::ranges::all_of(list, is); };
  Attributes attributes;
  for (const auto& [name, value] : json.items()) {
    if (value.is_boolean())
      attributes.set(name, value.get<bool>());
    else if (value.is_number_integer())
      attributes.set(name, value.get<int64_t>());
    else if (value.is_number())
      attributes.set(name, value.get<double>());
    else if (value.is_string())
      attributes.set(name, value.get<std::string>());
    else if (all(value, [](const auto& v) { return v.is_number_integer(); }))
      attributes.set(name, value.get<std::vector<int64_t>>());
    else if (all(value, [](const auto& v) { return v.is_number(); }))
      attributes.set(name, value.get<std::vector<double>>());
    else if (all(value, [](const auto& v) { return v.is_string(); }))
      attributes.set(name, value.get<std::vector<std::string>>());
    else
      throw UsageError("[attribute] '{}' is {}; a number, a word or a list of one kind of them is wanted", name,
                       value.dump());
  }
  return attributes;
}

}  // namespace d5
