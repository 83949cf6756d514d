// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/data_case.hpp"

#include <sstream>

#include "d5/datasets/generators.hpp"

namespace d5 {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::vector<double> numbers(const std::string& text) {
  std::vector<double> values;
  for (const std::string& part : split(text, '/')) {
    size_t used = 0;
    double value = 0;
    try {
      value = std::stod(part, &used);
    } catch (const std::exception&) {
    }
    if (used == 0 || used != part.size()) throw UsageError("[data] '{}' is no number", part);
    values.push_back(value);
  }
  return values;
}

// The text as the type that the option's default has.
Value as_type_of(const Value& like, const std::string& text) {
  if (std::holds_alternative<std::string>(like)) return text;
  const std::vector<double> given = numbers(text);
  if (std::holds_alternative<std::vector<double>>(like)) return given;
  if (given.size() != 1) throw UsageError("[data] '{}' is not one number", text);
  if (std::holds_alternative<double>(like)) return given[0];
  return static_cast<int64_t>(given[0]);
}

Attributes parse_options(const std::vector<std::string>& words, const std::vector<DataOption>& options,
                         const std::string& place) {
  Attributes values;
  for (const std::string& word : words) {
    if (word.empty()) continue;
    const size_t equals = word.find('=');
    if (equals == std::string::npos) throw UsageError("{} '{}'; options are given as NAME=VALUE", place, word);
    const std::string name = word.substr(0, equals);
    std::vector<std::string> legal;
    const DataOption* found = nullptr;
    for (const DataOption& option : options) {
      legal.push_back(option.name);
      if (option.name == name) found = &option;
    }
    if (!found) fail_unknown(place, "option", name, legal);
    values.set(name, as_type_of(found->otherwise, word.substr(equals + 1)));
  }
  return values;
}

}  // namespace

const std::vector<CaseField>& data_fields() {
  static const std::vector<CaseField> fields{
      {"dataset", "generated-images"},
      {"options", ""},
      {"access", "shuffle", {"ordered", "shuffle", "choice"}},
      {"augment", ""},
      {"batch", 128},
      {"threads", 1},
      {"ahead", 4},
      {"cache", "hot", {"hot", "cold"}},
      {"seed", 1},
  };
  return fields;
}

std::vector<AugmentationStep> parse_augmentations(const std::string& text) {
  std::vector<AugmentationStep> steps;
  for (const std::string& one : split(text, '+')) {
    std::istringstream stream(one);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.empty()) continue;
    const std::string name = words[0];
    words.erase(words.begin());
    const augmentations::Entry& entry = registered<augmentations>(name);
    steps.push_back({name, parse_options(words, entry.options, "[augmentation " + name + "]")});
  }
  return steps;
}

DataSource open_data_source(const Json& fields) {
  const auto name = fields.at("dataset").get<std::string>();
  const generators::Entry& entry = registered<generators>(name);
  return {generate(name, parse_options(split(fields.at("options"), ';'), entry.options, "[data]")), {}};
}

}  // namespace d5
