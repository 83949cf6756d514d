// SPDX-License-Identifier: Apache-2.0
// A recipe: what is fixed (a submission that changes it is another benchmark), what may change, the axes, what is
// accepted. TOML; a command line is a small recipe too. Errors name file:line:column and the nearest legal name.
//
//   name = "quick"      level = 0      about = "..."      include = ["common.toml"]
//   [fixed]  dtype = "f32"             [mutable]  threads = 1
//   [axes]   backend = ["onednn", "reference"]      every combination, the last axis fastest
//   [[cases]] operator = "Gemm"  m = [256, 512]     own values; an array here is an axis of this block
//   [[cases]] level = 2  network = "lenet"          a block of another level than the recipe
//   [[cases]] suite = "deepbench-gemm"  set = "training"      the rows of a suite (suite.hpp)
//   [measure] launches = 6  max_time = 10.0         [accept] share = ">= 0.8"
//   [search]  method = "tpe"  trials = 30           [search.space] batch = [32, 64]  width = { from = 8, to = 64 }
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace d5 {

struct Axis {
  std::string name;
  std::vector<nlohmann::json> values;
};

struct Accept {
  std::string metric;
  std::string relation;  // >= <= > <
  double threshold = 0;
  std::string place;
};

struct Recipe {
  std::string name, about, file;
  std::string kind = "op";  // from level: 0 op, 1 net, 2 train, 3 distributed, "data" data
  nlohmann::json fixed = nlohmann::json::object(), changeable = nlohmann::json::object();
  std::vector<Axis> axes;
  struct Block {
    nlohmann::json values = nlohmann::json::object();
    std::vector<Axis> axes;
    nlohmann::json label;  // of a row of a suite: {"suite", "set", "line"}; null elsewhere
  };
  std::vector<Block> blocks;  // empty: one block without values
  nlohmann::json measure = nlohmann::json::object();
  std::vector<Accept> accept;
  // Of [search]: its plain keys, "values", and "space": [{"field", "value", "place"}], "per": one of these.
  nlohmann::json search = nlohmann::json::object();
  std::map<std::string, std::string> places;  // field -> file:line:column
};

Recipe load_recipe(const std::string& path);
Recipe parse_recipe(const std::string& text, const std::string& file);  // includes are relative to the file's folder

// Sets a value from outside (the command line). UsageError when the field is fixed, or when a training is judged and
// the field is neither mutable, nor an axis, nor beside what is measured (seed, threads, files): it would be another
// benchmark. The same holds for a file that includes such a recipe (judged.hpp).
void override_value(Recipe&, const std::string& field, const std::vector<nlohmann::json>& values);

// Every combination as a flat object with "kind". `complete` fills in defaults and checks (bench/session.hpp); a
// FieldError of it gets the place of that field in front. Exact duplicates are dropped. `labels` gets one array a case:
// the labels of all blocks that made it.
using Complete = std::function<nlohmann::json(const nlohmann::json&)>;
std::vector<nlohmann::json> expand(const Recipe&, const Complete& complete,
                                   std::vector<nlohmann::json>* labels = nullptr);

}  // namespace d5
