// SPDX-License-Identifier: Apache-2.0
// Recipes as a user writes them: any text ends in cases or in a UsageError.
#include <cstddef>
#include <cstdint>
#include <string>

#include "d5/core/error.hpp"
#include "d5/recipe/recipe.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (text.find("include") != std::string::npos) return 0;  // would read files of this machine
  try {
    d5::Recipe recipe = d5::parse_recipe(text, "fuzz.toml");
    size_t cases = 1;
    for (const d5::Axis& axis : recipe.axes) cases *= axis.values.size() < 1000 ? axis.values.size() : 1000;
    for (const auto& block : recipe.blocks) {
      for (const d5::Axis& axis : block.axes) cases *= axis.values.size();
      if (cases > 1000) return 0;
    }
    if (cases > 1000) return 0;
    d5::expand(recipe, [](const nlohmann::json& fields) { return fields; });
    d5::override_value(recipe, "m", {1, 2});
    d5::expand(recipe, [](const nlohmann::json& fields) { return fields; });
  } catch (const d5::UsageError&) {  // a reason in words is a right answer
  }
  return 0;
}
