// SPDX-License-Identifier: Apache-2.0
#include "d5/recipe/suite.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "d5/core/error.hpp"
#include "d5/recipe/values.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;

// Installed: PREFIX/lib/libd5.so or PREFIX/lib/TRIPLET/libd5.so, and PREFIX/share. The build folder looks the same.
std::vector<fs::path> suite_folders() {
  if (const char* path = std::getenv("D5_SUITE_PATH"); path && *path) return {path};
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&suite_names), &info) || !info.dli_fname) return {};
  const fs::path library = fs::absolute(info.dli_fname).parent_path();
  return {library / "../share/deep500/suites", library / "../../share/deep500/suites"};
}

struct Cell {
  std::string text;
  size_t column;
};

std::vector<Cell> cells(const std::string& line) {
  std::vector<Cell> result;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    const size_t first = std::min(line.find_first_not_of(" \t", begin), end);
    const size_t last = line.find_last_not_of(" \t", end == 0 ? 0 : end - 1);
    result.push_back({first < end ? line.substr(first, last - first + 1) : "", first + 1});
    begin = end + 1;
  }
  return result;
}

std::vector<Cell> read_header(const std::string& line, const std::string& place) {
  std::vector<Cell> names = cells(line);
  std::set<std::string> seen;
  for (const Cell& name : names) {
    if (name.text.empty()) throw UsageError("[suite] {}:{}: a column without a name", place, name.column);
    if (name.text == "kind")
      throw UsageError("[suite] {}:{}: a column 'kind'; the command or recipe says what rows are", place, name.column);
    if (!seen.insert(name.text).second)
      throw UsageError("[suite] {}:{}: a second column '{}'", place, name.column, name.text);
  }
  if (!seen.contains("operator"))
    throw UsageError("[suite] {}: no column 'operator'; the first line that is no comment names the columns", place);
  return names;
}

// The texts under `key` of a block, whether one value or an axis; taken out of it.
std::vector<std::string> take_texts(Recipe::Block& block, const std::string& key, const std::string& place) {
  std::vector<nlohmann::json> values;
  if (block.values.contains(key)) values.push_back(block.values[key]);
  for (const Axis& axis : block.axes)
    if (axis.name == key) values = axis.values;
  block.values.erase(key);
  std::erase_if(block.axes, [&](const Axis& axis) { return axis.name == key; });
  std::vector<std::string> texts;
  for (const nlohmann::json& value : values) {
    if (!value.is_string()) throw UsageError("{}{} is {}; a name is wanted", place, key, value.dump());
    texts.push_back(value);
  }
  return texts;
}

bool is_chosen(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

void refuse_unknown(const Suite& suite, const std::string& what, const std::vector<std::string>& names,
                    const std::function<std::string(const SuiteRow&)>& of) {
  std::set<std::string> known;
  for (const SuiteRow& row : suite.rows)
    if (!of(row).empty()) known.insert(of(row));
  const std::vector<std::string> legal(known.begin(), known.end());
  for (const std::string& name : names)
    if (!known.contains(name)) fail_unknown(fmt::format("[suite] {}:", suite.file), what, name, legal);
}

// One block that names suites becomes the blocks of their rows.
class Resolver {
 public:
  Resolver(Recipe& recipe, const Complete& complete, const CheckCase& check)
      : recipe_(recipe), complete_(complete), check_(check) {}

  std::vector<std::string> run() {
    std::vector<Recipe::Block> blocks = std::move(recipe_.blocks);
    recipe_.blocks.clear();
    const std::map<std::string, std::string> before = std::move(recipe_.places);
    recipe_.places.clear();
    for (const auto& [field, place] : before)
      if (!field.starts_with("cases[")) recipe_.places[field] = place;
    for (size_t i = 0; i < blocks.size(); ++i) {
      places_.clear();
      const std::string prefix = fmt::format("cases[{}].", i);
      for (const auto& [field, place] : before)
        if (field.starts_with(prefix)) places_[field.substr(prefix.size())] = place;
      const auto place = places_.find("suite");
      const auto suites =
          take_texts(blocks[i], "suite", place == places_.end() ? "[suite] " : "[recipe] " + place->second + ": ");
      if (suites.empty()) {
        add(std::move(blocks[i]), places_);
        continue;
      }
      const auto sets = take_texts(blocks[i], "set", "[suite] "),
                 operators = take_texts(blocks[i], "operator", "[suite] ");
      for (const std::string& name : suites) rows_of(load(name), sets, operators, blocks[i]);
    }
    return std::move(problems_);
  }

 private:
  // A file is looked for from here and from the folder of the recipe.
  Suite load(const std::string& name) const {
    const fs::path beside = fs::path(recipe_.file).parent_path() / name;
    const bool file = name.ends_with(".csv") && !fs::exists(name) && fs::exists(beside);
    return load_suite(file ? beside.string() : name);
  }

  void rows_of(const Suite& suite, const std::vector<std::string>& sets, const std::vector<std::string>& operators,
               const Recipe::Block& block) {
    const auto operator_of = [](const SuiteRow& row) {
      const nlohmann::json name = row.fields.value("operator", nlohmann::json(""));
      return name.is_string() ? name.get<std::string>() : name.dump();
    };
    refuse_unknown(suite, "set", sets, [](const SuiteRow& row) { return row.set; });
    refuse_unknown(suite, "operator", operators, operator_of);
    for (const std::string& problem : suite.problems) problems_.push_back("[suite] " + problem);
    for (const SuiteRow& row : suite.rows)
      if (is_chosen(sets, row.set) && is_chosen(operators, operator_of(row))) add_row(suite, row, block);
  }

  void add_row(const Suite& suite, const SuiteRow& row, const Recipe::Block& block) {
    nlohmann::json whole = row.fields;
    whole["kind"] = recipe_.kind;
    try {
      whole = complete_(whole);
      check_(whole);
    } catch (const FieldError& error) {
      const auto column = row.columns.find(error.field());
      problem(suite, row, column == row.columns.end() ? 1 : column->second, error);
      return;
    } catch (const std::exception& error) {
      problem(suite, row, 1, error);
      return;
    }
    Recipe::Block made{.label = {{"suite", suite.name}, {"set", row.set}, {"line", row.line}}};
    std::map<std::string, std::string> places;
    for (const auto& [field, value] : row.fields.items()) {
      if (recipe_.fixed.contains(field)) continue;
      made.values[field] = value;
      places[field] = fmt::format("{}:{}:{}", suite.file, row.line, row.columns.at(field));
    }
    const auto replace = [&](const std::string& field) {
      if (!whole.contains(field)) return false;  // what another operator of the suite has does not concern this one
      made.values.erase(field);
      places.erase(field);
      if (const auto place = places_.find(field); place != places_.end()) places[field] = place->second;
      return true;
    };
    for (const auto& [field, value] : block.values.items())
      if (replace(field)) made.values[field] = value;
    for (const Axis& axis : block.axes)
      if (replace(axis.name)) made.axes.push_back(axis);
    add(std::move(made), places);
  }

  void problem(const Suite& suite, const SuiteRow& row, size_t column, const std::exception& error) {
    problems_.push_back(fmt::format("[suite] {}:{}:{}: {}", suite.file, row.line, column, error.what()));
  }

  void add(Recipe::Block block, const std::map<std::string, std::string>& places) {
    for (const auto& [field, place] : places)
      recipe_.places[fmt::format("cases[{}].{}", recipe_.blocks.size(), field)] = place;
    recipe_.blocks.push_back(std::move(block));
  }

  Recipe& recipe_;
  const Complete& complete_;
  const CheckCase& check_;
  std::map<std::string, std::string> places_;  // of the block under way
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> suite_names() {
  std::set<std::string> names;
  for (const fs::path& folder : suite_folders()) {
    std::error_code absent;
    for (const auto& entry : fs::directory_iterator(folder, absent))
      if (entry.path().extension() == ".csv") names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

Suite load_suite(const std::string& name_or_file) {
  std::string path = name_or_file;
  if (!name_or_file.ends_with(".csv")) {
    const std::vector<std::string> legal = suite_names();
    if (std::ranges::find(legal, name_or_file) == legal.end()) fail_unknown("[suite]", "suite", name_or_file, legal);
    for (const fs::path& folder : suite_folders())
      if (const fs::path found = folder / (name_or_file + ".csv"); fs::exists(found)) {
        path = found.lexically_normal().string();
        break;
      }
  }
  std::error_code ignored;
  std::ifstream in(path, std::ios::binary);
  if (!in || !fs::is_regular_file(path, ignored)) throw UsageError("[suite] {}: cannot read the file", path);
  std::ostringstream text;
  text << in.rdbuf();
  return parse_suite(text.str(), path);
}

Suite parse_suite(const std::string& text, const std::string& file) {
  Suite suite{.name = fs::path(file).stem().string(), .file = file};
  std::vector<Cell> header;
  std::istringstream lines(text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text);
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (line.starts_with('#')) {
      if (suite.about.empty() && header.empty())
        suite.about = line.substr(std::min(line.find_first_not_of("# "), line.size()));
      continue;
    }
    if (header.empty()) {
      header = read_header(line, fmt::format("{}:{}", file, number));
      continue;
    }
    const std::vector<Cell> row = cells(line);
    if (row.size() != header.size()) {
      suite.problems.push_back(fmt::format("{}:{}:1: {} cells; {} are wanted, as many as there are columns", file,
                                           number, row.size(), header.size()));
      continue;
    }
    SuiteRow made{.line = number};
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i].text.empty()) continue;
      if (header[i].text == "set") {
        made.set = row[i].text;
        continue;
      }
      made.fields[header[i].text] = parse_value(row[i].text);
      made.columns[header[i].text] = row[i].column;
    }
    suite.rows.push_back(std::move(made));
  }
  if (header.empty()) throw UsageError("[suite] {}: no line with the names of the columns", file);
  return suite;
}

std::vector<std::string> resolve_suites(Recipe& recipe, const Complete& complete, const CheckCase& check) {
  return Resolver(recipe, complete, check).run();
}

}  // namespace d5
