// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "d5/core/error.hpp"
#include "d5/recipe/judged.hpp"

namespace d5 {
namespace {

constexpr size_t most_cases = 1'000'000;

std::string axis_lengths(const std::vector<const Axis*>& axes) {
  std::string result;
  for (const Axis* a : axes) result += fmt::format("{}{} {}", result.empty() ? "" : " x ", a->name, a->values.size());
  return result;
}

// How many cases a block makes; never more than one above the limit, so that nothing overflows.
size_t combinations(const std::vector<const Axis*>& axes) {
  size_t count = 1;
  for (const Axis* a : axes) {
    if (a->values.empty()) return 0;
    count = a->values.size() > (most_cases + 1) / count ? most_cases + 1 : count * a->values.size();
  }
  return count;
}

void add_all(nlohmann::json& fields, const nlohmann::json& more) {
  for (const auto& [name, value] : more.items()) fields[name] = value;
}

std::string place_of_field(const Recipe& recipe, size_t block, const std::string& field) {
  for (const std::string& key : {fmt::format("cases[{}].{}", block, field), field}) {
    if (const auto found = recipe.places.find(key); found != recipe.places.end()) return found->second;
  }
  return {};
}

void remove_axis(std::vector<Axis>& axes, const std::string& field) {
  std::erase_if(axes, [&](const Axis& a) { return a.name == field; });
}

}  // namespace

void override_value(Recipe& recipe, const std::string& field, const std::vector<nlohmann::json>& values) {
  if (values.empty()) throw UsageError("[recipe] no value given for '{}'", field);
  if (recipe.fixed.contains(field)) {
    throw UsageError("[recipe] '{}' is fixed ({}) at {}: with another value it is another benchmark", field,
                     recipe.fixed[field].dump(), recipe.places.count(field) ? recipe.places.at(field) : recipe.file);
  }
  refuse_another_benchmark(recipe, field);
  for (size_t i = 0; i < recipe.blocks.size(); ++i) {
    recipe.blocks[i].values.erase(field);
    remove_axis(recipe.blocks[i].axes, field);
    recipe.places.erase(fmt::format("cases[{}].{}", i, field));
  }
  recipe.places.erase(field);
  recipe.changeable.erase(field);
  const auto same =
      std::find_if(recipe.axes.begin(), recipe.axes.end(), [&](const Axis& a) { return a.name == field; });
  if (same != recipe.axes.end()) {
    same->values = values;  // keeps its place in the order
  } else if (values.size() == 1) {
    recipe.changeable[field] = values[0];
  } else {
    recipe.axes.push_back({field, values});
  }
}

std::vector<nlohmann::json> expand(const Recipe& recipe, const Complete& complete,
                                   std::vector<nlohmann::json>* labels) {
  std::vector<Recipe::Block> blocks = recipe.blocks;
  if (blocks.empty()) blocks.emplace_back();
  std::vector<nlohmann::json> result;
  std::map<std::string, size_t> seen;  // a case as text -> its place in the result
  if (labels) labels->clear();
  size_t total = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    // A block's own axes turn slowest, so that what is compared (backends, usually a common axis) stays together.
    std::vector<const Axis*> axes;
    for (const Axis& a : blocks[b].axes) axes.push_back(&a);
    for (const Axis& a : recipe.axes) axes.push_back(&a);
    const size_t count = combinations(axes);
    total += count;
    if (total > most_cases) {
      throw UsageError("[recipe] {}: more than {} cases ({})", recipe.file, most_cases, axis_lengths(axes));
    }
    nlohmann::json common = {{"kind", recipe.kind}};
    add_all(common, recipe.fixed);
    add_all(common, recipe.changeable);
    add_all(common, blocks[b].values);
    for (size_t i = 0; i < count; ++i) {
      nlohmann::json fields = common;
      size_t rest = i;
      for (size_t a = axes.size(); a-- > 0;) {
        fields[axes[a]->name] = axes[a]->values[rest % axes[a]->values.size()];
        rest /= axes[a]->values.size();
      }
      try {
        fields = complete(fields);
      } catch (const FieldError& e) {
        const std::string place = place_of_field(recipe, b, e.field());
        if (place.empty()) throw;
        throw FieldError(e.field(), fmt::format("[recipe] {}: {}", place, e.what()));
      }
      const auto [place, is_new] =
          seen.emplace(fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), result.size());
      if (is_new) result.push_back(std::move(fields));
      if (!labels) continue;
      labels->resize(result.size(), nlohmann::json::array());
      if (!blocks[b].label.is_null()) (*labels)[place->second].push_back(blocks[b].label);
    }
  }
  return result;
}

}  // namespace d5
