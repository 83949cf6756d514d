// SPDX-License-Identifier: Apache-2.0
#include "d5/recipe/recipe.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "d5/core/error.hpp"
#include "d5/recipe/judged.hpp"
#include "d5/recipe/toml_values.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> legal_keys = {"name", "level", "about",   "include", "fixed", "mutable",
                                             "axes", "cases", "measure", "accept",  "search"};
const std::vector<std::string> search_keys = {"method",   "objective", "trials", "seed",
                                              "parallel", "values",    "space",  "per"};
constexpr std::array kinds = {"op", "net", "train", "train"};

// One loading of a recipe with all it includes. A file that is included twice counts once; one that includes itself,
// directly or not, is an error that shows the way round.
class Loader {
 public:
  void file(const std::string& path, const std::string& included_at) {
    std::error_code ignored;
    std::ifstream in(path, std::ios::binary);
    if (!in || !fs::is_regular_file(path, ignored)) {
      throw UsageError("[recipe] {}{}: cannot read the file", included_at.empty() ? "" : included_at + ": include ",
                       path);
    }
    std::ostringstream text;
    text << in.rdbuf();
    parse(text.str(), path, included_at);
  }

  void parse(const std::string& text, const std::string& path, const std::string& included_at) {
    std::error_code ignored;
    const std::string identity = fs::weakly_canonical(path, ignored).string();
    const auto [known, is_new] = number_of_.emplace(identity, files_.size());
    if (std::find(within_.begin(), within_.end(), known->second) != within_.end()) {
      std::string way;
      for (const size_t file : within_) way += files_[file].path + " -> ";
      throw UsageError("[recipe] {}: a recipe that includes itself: {}{}", included_at, way, path);
    }
    if (!within_.empty()) files_[within_.back()].includes.insert(known->second);
    if (!is_new) return;
    files_.push_back({.path = path});
    within_.push_back(known->second);
    sections(parse_toml(text, path), path);
    within_.pop_back();
  }

  Recipe take() {
    refuse_another_benchmark(files_);
    return std::move(recipe_);
  }

 private:
  static toml::table parse_toml(const std::string& text, const std::string& path) try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& e) {
    throw UsageError("[recipe] {}: {}", place_of(path, e.source()), e.description());
  }

  void sections(const toml::table& table, const std::string& path) {
    std::vector<TomlMember> all = members(table, path);
    for (const TomlMember& m : all) {
      if (std::find(legal_keys.begin(), legal_keys.end(), m.key) == legal_keys.end()) {
        fail_unknown("[recipe] " + m.place + ":", "key", m.key, legal_keys);
      }
    }
    // What is included comes first, wherever the line stands: this file may then change what may change.
    for (const TomlMember& m : all) {
      if (m.key == "include") include(m, path);
    }
    for (const TomlMember& m : all) {
      if (m.key == "name") recipe_.name = as_text(m);
      if (m.key == "about") recipe_.about = as_text(m);
      if (m.key == "level") level(m);
      if (m.key == "fixed") fixed(m, path);
      if (m.key == "mutable") changeable(m, path);
      if (m.key == "axes") axes(m, path);
      if (m.key == "cases") cases(m, path);
      if (m.key == "measure") measure(m, path);
      if (m.key == "accept") accept(m, path);
      if (m.key == "search") search(m, path);
    }
  }

  void include(const TomlMember& m, const std::string& path) {
    const auto one = [&](const toml::node& node) {
      const auto* name = node.as_string();
      if (!name) throw UsageError("[recipe] {}: include must name files; legal: include = [\"common.toml\"]", m.place);
      file((fs::path(path).parent_path() / name->get()).string(), m.place);
    };
    if (const toml::array* several = m.value->as_array()) {
      for (const toml::node& node : *several) one(node);
    } else {
      one(*m.value);
    }
  }

  void level(const TomlMember& m) {
    RecipeFile& file = files_[within_.back()];
    recipe_.kind = file.kind = kind_of_level(m);
    if (file.kind != "train") file.fields.push_back({m.key, m.place});
  }

  static std::string kind_of_level(const TomlMember& m) {
    if (m.value->value<std::string_view>() == "data") return "data";
    const auto* value = m.value->as_integer();
    if (!value || value->get() < 0 || value->get() >= static_cast<int64_t>(kinds.size())) {
      throw UsageError(
          "[recipe] {}: level; legal: 0 (operators), 1 (networks), 2 (training), 3 (training by several ranks), "
          "\"data\"",
          m.place);
    }
    return kinds[static_cast<size_t>(value->get())];
  }

  static void refuse_kind(const TomlMember& m) {
    if (m.key == "kind") throw UsageError("[recipe] {}: 'kind' is no field; it follows from 'level'", m.place);
  }

  // A field may stand in one of fixed, mutable and axes: in two, nobody could say which one counts.
  void claim(const TomlMember& m, const std::string& section) {
    refuse_kind(m);
    const auto known = section_of_.find(m.key);
    if (known != section_of_.end() && (known->second != section || section == "fixed")) {
      throw UsageError("[recipe] {}: '{}' under [{}] is already under [{}] at {}", m.place, m.key, section,
                       known->second, recipe_.places.at(m.key));
    }
    section_of_[m.key] = section;
    recipe_.places[m.key] = m.place;
    files_[within_.back()].fields.push_back({m.key, m.place, section != "fixed"});
    if (section == "fixed" && m.key == "target") files_[within_.back()].judges_by = "a target";
  }

  void fixed(const TomlMember& section, const std::string& path) {
    for (const TomlMember& m : members(as_table(section), path)) {
      claim(m, "fixed");
      recipe_.fixed[m.key] = plain_value(*m.value, m.place);
    }
  }

  void changeable(const TomlMember& section, const std::string& path) {
    for (const TomlMember& m : members(as_table(section), path)) {
      claim(m, "mutable");
      recipe_.changeable[m.key] = plain_value(*m.value, m.place);
    }
  }

  void axes(const TomlMember& section, const std::string& path) {
    for (const TomlMember& m : members(as_table(section), path)) {
      claim(m, "axes");
      const toml::array* array = m.value->as_array();
      if (!array) {
        throw UsageError("[recipe] {}: axis '{}' is one value; legal: an array (one value goes under [mutable])",
                         m.place, m.key);
      }
      Axis axis{m.key, axis_values(*array, m.place)};
      const auto same =
          std::find_if(recipe_.axes.begin(), recipe_.axes.end(), [&](const Axis& a) { return a.name == m.key; });
      if (same == recipe_.axes.end()) {
        recipe_.axes.push_back(std::move(axis));
      } else {
        *same = std::move(axis);
      }
    }
  }

  void cases(const TomlMember& section, const std::string& path) {
    const toml::array* array = section.value->as_array();
    if (!array || !array->is_array_of_tables()) {
      throw UsageError("[recipe] {}: 'cases' must be written as [[cases]] blocks", section.place);
    }
    for (const toml::node& node : *array) {
      Recipe::Block block;
      const std::string prefix = fmt::format("cases[{}].", recipe_.blocks.size());
      for (const TomlMember& m : members(*node.as_table(), path)) {
        refuse_kind(m);
        recipe_.places[prefix + m.key] = m.place;
        if (m.key == "level") {
          block.values["kind"] = kind_of_level(m);
          continue;
        }
        files_[within_.back()].fields.push_back({m.key, m.place});
        if (const toml::array* values = m.value->as_array()) {
          block.axes.push_back({m.key, axis_values(*values, m.place)});
        } else {
          block.values[m.key] = plain_value(*m.value, m.place);
        }
      }
      recipe_.blocks.push_back(std::move(block));
    }
  }

  void measure(const TomlMember& section, const std::string& path) {
    for (const TomlMember& m : members(as_table(section), path)) {
      recipe_.places["measure." + m.key] = m.place;
      recipe_.measure[m.key] = plain_value(*m.value, m.place);
    }
  }

  void search(const TomlMember& section, const std::string& path) {
    const auto field = [](const TomlMember& m) {
      const toml::array* choices = m.value->as_array();
      nlohmann::json value = choices ? nlohmann::json(axis_values(*choices, m.place)) : plain_value(*m.value, m.place);
      return nlohmann::json{{"field", m.key}, {"value", value}, {"place", m.place}};
    };
    for (const TomlMember& m : members(as_table(section), path)) {
      if (m.key == "space") {
        for (const TomlMember& one : members(as_table(m), path)) recipe_.search["space"].push_back(field(one));
      } else if (m.key == "per") {
        const std::vector<TomlMember> all = members(as_table(m), path);
        if (all.size() != 1) throw UsageError("[recipe] {}: per names {} fields; one is legal", m.place, all.size());
        recipe_.search["per"] = field(all[0]);
      } else if (std::find(search_keys.begin(), search_keys.end(), m.key) == search_keys.end()) {
        fail_unknown("[recipe] " + m.place + ":", "key of [search]", m.key, search_keys);
      } else {
        const nlohmann::json value = plain_value(*m.value, m.place);
        const bool is_text = m.key == "method" || m.key == "objective";
        if (is_text ? !value.is_string() : m.key == "values" ? !value.is_object() : !value.is_number_integer())
          throw UsageError("[recipe] {}: {} is {}; {} is legal", m.place, m.key, value.dump(),
                           is_text             ? "a text"
                           : m.key == "values" ? "a table"
                                               : "a whole number");
        recipe_.search[m.key] = value;
      }
    }
  }

  void accept(const TomlMember& section, const std::string& path) {
    for (const TomlMember& m : members(as_table(section), path)) {
      Accept parsed = parse_accept(m);
      const auto same = std::find_if(recipe_.accept.begin(), recipe_.accept.end(),
                                     [&](const Accept& a) { return a.metric == m.key; });
      if (same != recipe_.accept.end())
        throw UsageError(
            "[recipe] {}: '{}' under [accept] is already under [accept] at {}: an included judgement stays", m.place,
            m.key, same->place);
      recipe_.accept.push_back(std::move(parsed));
      if (std::string& by = files_[within_.back()].judges_by; by.empty()) by = "[accept]";
    }
  }

  static Accept parse_accept(const TomlMember& m) {
    const auto wrong = [&](const std::string& given) {
      throw UsageError("[recipe] {}: accept '{}' is {}; legal: \">= 0.989\" with one of >= <= > <", m.place, m.key,
                       given);
    };
    const auto* written = m.value->as_string();
    if (!written) wrong("no text");
    const std::string& text = written->get();
    const size_t start = text.find_first_not_of("><= \t");
    if (start == std::string::npos) wrong("'" + text + "'");
    std::string relation = text.substr(0, start);
    std::erase_if(relation, [](char c) { return c == ' ' || c == '\t'; });
    double threshold = 0;
    const char* end = text.data() + text.find_last_not_of(" \t") + 1;
    const auto [stopped, code] = std::from_chars(text.data() + start, end, threshold);
    const bool known = relation == ">=" || relation == "<=" || relation == ">" || relation == "<";
    if (!known || code != std::errc() || stopped != end || !std::isfinite(threshold)) wrong("'" + text + "'");
    return {m.key, relation, threshold, m.place};
  }

  Recipe recipe_;
  std::map<std::string, std::string> section_of_;  // field -> fixed | mutable | axes
  std::vector<RecipeFile> files_;                  // in the order in which they were met
  std::map<std::string, size_t> number_of_;        // identity -> its place in files_
  std::vector<size_t> within_;                     // files being read, by number
};

// After everything is read: a block may set its own value of what is mutable, but not of what is fixed or an axis.
void check_blocks(const Recipe& recipe) {
  for (size_t i = 0; i < recipe.blocks.size(); ++i) {
    const auto check = [&](const std::string& field) {
      const bool axis =
          std::any_of(recipe.axes.begin(), recipe.axes.end(), [&](const Axis& a) { return a.name == field; });
      if (!axis && !recipe.fixed.contains(field)) return;
      throw UsageError("[recipe] {}: '{}' of a case is already under [{}] at {}",
                       recipe.places.at(fmt::format("cases[{}].{}", i, field)), field, axis ? "axes" : "fixed",
                       recipe.places.at(field));
    };
    for (const auto& [field, value] : recipe.blocks[i].values.items()) check(field);
    for (const Axis& axis : recipe.blocks[i].axes) check(axis.name);
  }
}

Recipe finish(Loader& loader, const std::string& file) {
  Recipe recipe = loader.take();
  recipe.file = file;
  if (recipe.name.empty()) recipe.name = fs::path(file).stem().string();
  check_blocks(recipe);
  return recipe;
}

}  // namespace

Recipe load_recipe(const std::string& path) {
  Loader loader;
  loader.file(path, "");
  return finish(loader, path);
}

Recipe parse_recipe(const std::string& text, const std::string& file) {
  Loader loader;
  loader.parse(text, file, "");
  return finish(loader, file);
}

}  // namespace d5
