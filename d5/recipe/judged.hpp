// SPDX-License-Identifier: Apache-2.0
// A training that is judged, by [accept] or a fixed target, is measured on what its recipe says, and what that leaves
// to its defaults is part of it. From outside only what is mutable there can change, or an axis, and what is beside the
// measurement: who computes and how precisely, seeds, files.
#pragma once

#include <set>

#include "d5/recipe/recipe.hpp"

namespace d5 {

// One file of a recipe: what it says itself and which files it includes.
struct RecipeFile {
  struct Field {
    std::string name, place;
    bool may_change = false;  // of [mutable] or [axes]
  };
  std::string path, kind;     // kind: empty where it names no level
  std::vector<Field> fields;  // of all its sections, of [[cases]] too; "level" where that is another than of trainings
  std::set<size_t> includes;  // their numbers
  std::string judges_by;      // "[accept]", "a target"; empty: it judges nothing
};

// UsageError where a file names a field for a recipe beside or below it that is judged and does not let it change.
void refuse_another_benchmark(const std::vector<RecipeFile>&);

// The same for a value from the command line.
void refuse_another_benchmark(const Recipe&, const std::string& field);

}  // namespace d5
