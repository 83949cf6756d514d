// SPDX-License-Identifier: Apache-2.0
// What may be searched: fields of a recipe, as choices or ranges.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "d5/bench/train_case.hpp"
#include "d5/recipe/values.hpp"
#include "d5/runner/search.hpp"
#include "d5/training/task.hpp"

namespace d5 {
namespace {

constexpr const char* legal_forms =
    "legal: values (32,64), a range (0.1..0.9), log:0.0001..0.1; in a recipe [32, 64], { from, to, scale = \"log\" }";

const std::vector<std::string> range_keys{"from", "to", "scale"};

void check_range(const SearchField& f, const std::string& place) {
  if (!(std::isfinite(f.from) && std::isfinite(f.to) && f.from < f.to))
    throw UsageError("[search] {}: the range of {} is {} to {}; the first must be less than the second", place, f.field,
                     f.from, f.to);
  if (f.logarithmic && !(f.from > 0))
    throw UsageError("[search] {}: the logarithmic range of {} begins at {}; it must be above 0", place, f.field,
                     f.from);
}

double number_of(const Json& value, const std::string& field, const std::string& place) {
  if (!value.is_number()) throw UsageError("[search] {}: {} is {}; {}", place, field, value.dump(), legal_forms);
  return value;
}

// A value inside another: "optimizer.learning_rate". Texts like "adam:learning_rate=0.1" become objects.
Json with_member(const Json& whole, const std::string& member, const Json& value) {
  Json object = whole;
  if (whole.is_string()) {
    const NamedValues named = parse_named_values(whole);
    object = Json{{"name", named.name}};
    for (const std::string& one : named.values) {
      const size_t equals = one.find('=');
      object[one.substr(0, equals)] = parse_value(one.substr(equals + 1));
    }
  }
  object[member] = value;
  return object;
}

Json present_value(const Recipe& recipe, const std::string& field) {
  for (const Json* values : {&recipe.fixed, &recipe.changeable})
    if (values->contains(field)) return values->at(field);
  for (const Axis& axis : recipe.axes)
    if (axis.name == field) return axis.values.front();
  for (const CaseField& known : train_fields())
    if (known.name == field) return known.otherwise;
  throw UsageError("[search] '{}' is no field that has values inside; legal: optimizer.NAME, schedule.NAME", field);
}

}  // namespace

SearchField parse_search_field(const std::string& field, const std::string& text) {
  SearchField result{.field = field, .choices = {}};
  const bool is_log = text.starts_with("log:");
  const std::string body = is_log ? text.substr(4) : text;
  const size_t dots = body.find("..");
  if (dots == std::string::npos && !is_log) {
    result.choices = parse_values(body);
    return result;
  }
  const Json from = parse_value(body.substr(0, dots)),
             to = dots == std::string::npos ? Json() : parse_value(body.substr(dots + 2));
  result.from = number_of(from, field, text);
  result.to = number_of(to, field, text);
  result.logarithmic = is_log;
  result.whole = from.is_number_integer() && to.is_number_integer();
  check_range(result, text);
  return result;
}

SearchField search_field_from(const std::string& field, const Json& value, const std::string& place) {
  SearchField result{.field = field, .choices = {}};
  if (value.is_array() && !value.empty()) {
    result.choices = value.get<std::vector<Json>>();
    return result;
  }
  if (!value.is_object() || !value.contains("from") || !value.contains("to"))
    throw UsageError("[search] {}: {} is {}; {}", place, field, value.dump(), legal_forms);
  for (const auto& [key, ignored] : value.items())
    if (std::ranges::find(range_keys, key) == range_keys.end())
      fail_unknown("[search] " + place + ":", "key of a range", key, range_keys);
  const std::string scale = value.value("scale", "linear");
  if (scale != "linear" && scale != "log")
    throw UsageError("[search] {}: scale of {} is '{}'; legal: linear, log", place, field, scale);
  result.from = number_of(value["from"], field, place);
  result.to = number_of(value["to"], field, place);
  result.logarithmic = scale == "log";
  result.whole = value["from"].is_number_integer() && value["to"].is_number_integer();
  check_range(result, place);
  return result;
}

Dimension dimension_of(const SearchField& f) {
  if (!f.choices.empty())
    return {static_cast<Index>(f.choices.size()),
            std::ranges::all_of(f.choices, [](const Json& choice) { return choice.is_number(); })};
  constexpr double most_choices = 64;  // of whole numbers; more are as good as a range
  if (f.whole && !f.logarithmic && f.to - f.from < most_choices) return {static_cast<Index>(f.to - f.from) + 1, true};
  return {};
}

Json value_at(const SearchField& f, double coordinate) {
  const Dimension dimension = dimension_of(f);
  if (!f.choices.empty()) return f.choices[static_cast<size_t>(choice_of(dimension, coordinate))];
  if (dimension.choices) return static_cast<int64_t>(f.from) + choice_of(dimension, coordinate);
  double value = f.logarithmic ? f.from * std::pow(f.to / f.from, coordinate) : f.from + coordinate * (f.to - f.from);
  if (f.whole) return static_cast<int64_t>(std::llround(value));
  // Four digits are enough to rerun it by hand; the ends stay what they are.
  value = std::clamp(std::stod(fmt::format("{:.4g}", value)), f.from, f.to);
  return value;
}

SearchPlan search_plan_from(const Recipe& recipe) {
  SearchPlan plan;
  const auto integer = [&](const std::string& key, const Json& value) {
    if (!value.is_number_integer() || value.get<int64_t>() < 0)
      throw UsageError("[search] {}: {} is {}; whole numbers of 0 and more are legal", recipe.file, key, value.dump());
    return value.get<int64_t>();
  };
  for (const auto& [key, value] : recipe.search.items()) {
    if (key == "method") plan.method = value;
    if (key == "objective") plan.objective = value;
    if (key == "trials") plan.trials = integer(key, value);
    if (key == "seed") plan.seed = static_cast<uint64_t>(integer(key, value));
    if (key == "parallel") plan.parallel = static_cast<int>(integer(key, value));
    if (key == "values") plan.values = attributes_from_json(value);
    if (key == "per") plan.per = search_field_from(value.at("field"), value.at("value"), value.at("place"));
    if (key == "space")
      for (const Json& one : value)
        plan.space.push_back(search_field_from(one.at("field"), one.at("value"), one.at("place")));
  }
  if (!plan.per.field.empty() && plan.per.choices.empty())
    throw UsageError("[search] per {}: a range is given; legal: several values", plan.per.field);
  return plan;
}

Json trial_case(const Recipe& recipe, const Json& values, double budget) {
  Recipe one = recipe;
  for (const auto& [field, value] : values.items()) {
    const size_t dot = field.find('.');
    if (dot == std::string::npos) {
      override_value(one, field, {value});
    } else {
      const std::string whole = field.substr(0, dot);
      override_value(one, whole, {with_member(present_value(one, whole), field.substr(dot + 1), value)});
    }
  }
  for (Axis& axis : one.axes)
    if (axis.name == "seed") axis.values.resize(1);
  const std::vector<Json> cases = expand(one, [](const Json& fields) { return bench_of(fields).complete(fields); });
  if (cases.size() != 1)
    throw UsageError("[search] {} gives {} cases; a trial is one training (several seeds are for the best one)",
                     recipe.name, cases.size());
  Json fields = cases.front();
  for (const char* length : {"epochs", "steps"})
    if (const auto whole = fields.at(length).get<double>(); whole > 0 && budget < 1)
      fields[length] = std::max<int64_t>(1, std::llround(whole * budget));
  return fields;
}

double trial_cost(const Record& record, const std::string& objective) {
  constexpr double failed = std::numeric_limits<double>::infinity(), never = 1e9;
  if (record.status != "passed") return failed;
  const std::string quality = record.details.value("training", Json::object()).value("quality", "");
  const Metric* metric = record.metric("test_" + quality);
  if (!metric || !std::isfinite(metric->median)) return failed;
  const bool larger = registered<tasks>(task_of_case(record.fields)).larger_is_better;
  const double cost = larger ? -metric->median : metric->median;
  if (objective == "quality") return cost;
  const Metric* time = record.metric("time_to_target");
  return time ? time->median : never + cost;
}

}  // namespace d5
