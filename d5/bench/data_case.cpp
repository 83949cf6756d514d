// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/data_case.hpp"

#include <sstream>

#include "d5/datasets/decoder.hpp"
#include "d5/datasets/named.hpp"
#include "d5/measure/storage.hpp"

namespace d5 {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::vector<std::string> existing_files(const DatasetEntry& entry, const std::string& folder, const std::string& name) {
  std::vector<std::string> files;
  for (const PublishedFile& file : entry.files) {
    try {
      for (const std::string& found : files_of(find_published(folder, file, name))) files.push_back(found);
    } catch (const Error&) {  // of another part of the set
    }
  }
  return files;
}

}  // namespace

const std::vector<CaseField>& data_fields() {
  static const std::vector<CaseField> fields{
      {"dataset", "generated-images"},
      {"container", ""},
      {"options", ""},
      {"folder", ""},
      {"pixels", -1},
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
    steps.push_back({name, {}});
    for (const std::string& word : words)
      set_option(steps.back().values, word, entry.options, "[augmentation " + name + "]");
  }
  return steps;
}

DataSource open_data_source(const Json& fields) {
  const auto name = fields.at("dataset").get<std::string>();
  const std::vector<std::string> words = split(fields.at("options"), ';');
  Attributes options;
  DataSource source;
  if (const DatasetEntry* entry = find_registered<datasets>(name)) {
    for (const std::string& word : words) set_option(options, word, entry->options, "[data]");
    const std::string folder = data_folder(fields.at("folder"));
    source = {open_dataset(name, folder, options), existing_files(*entry, folder, name)};
  } else {
    auto kind = fields.at("container").get<std::string>();
    if (kind.empty()) kind = guess_container(name);
    for (const std::string& word : words) set_option(options, word, container(kind).options, "[data]");
    source.data = open_container(kind, name, options);
    for (const std::string& match : matching_files(name))
      for (const std::string& file : files_of(match)) source.files.push_back(file);
  }
  const auto pixels = fields.at("pixels").get<Index>();
  if (pixels >= 0) source.data = decoded(source.data, {.height = pixels, .width = pixels, .resize = true});
  return source;
}

}  // namespace d5
