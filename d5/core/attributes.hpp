// SPDX-License-Identifier: Apache-2.0
// Named values: the attributes of an operator, the parameters of an optimizer, the fields of a case. Reading one with
// the wrong type, or leaving one unread that nobody knows, is an error that names it.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "d5/core/tensor.hpp"

namespace d5 {

struct Graph;  // graph/graph.hpp: the bodies of If, Loop and Scan are attributes

using Value = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>,
                           std::vector<std::string>, std::shared_ptr<const Tensor>, std::shared_ptr<const Graph>>;

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Value>> values) : values_(values) {}

  bool has(const std::string& name) const { return values_.contains(name); }
  void set(const std::string& name, Value value) { values_[name] = std::move(value); }
  void erase(const std::string& name) { values_.erase(name); }

  int64_t integer(const std::string& name, int64_t otherwise) const;
  double real(const std::string& name, double otherwise) const;  // accepts an integer
  bool flag(const std::string& name, bool otherwise) const;      // accepts 0 and 1
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::vector<int64_t> integers(const std::string& name, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> reals(const std::string& name, std::vector<double> otherwise = {}) const;  // accepts integers
  std::shared_ptr<const Tensor> tensor(const std::string& name) const;  // null where it is not there
  std::shared_ptr<const Graph> graph(const std::string& name) const;

  // UsageError for the first name that is not in `legal`, with the nearest one.
  void check_names(std::span<const std::string> legal, std::string_view place) const;

  const std::map<std::string, Value>& values() const { return values_; }
  bool operator==(const Attributes&) const = default;

 private:
  std::map<std::string, Value> values_;
};

std::string to_string(const Value&);        // "3", "0.5", "1,2", "same"
nlohmann::json to_json(const Attributes&);  // tensors and graphs are left out
Attributes attributes_from_json(const nlohmann::json&);

}  // namespace d5
