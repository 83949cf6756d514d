// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/data_case.hpp"

#include <filesystem>
#include <sstream>

#include "d5/bench/data_store.hpp"
#include "d5/datasets/decoder.hpp"
#include "d5/datasets/file_writer.hpp"
#include "d5/datasets/named.hpp"
#include "d5/datasets/views.hpp"
#include "d5/measure/storage.hpp"

namespace d5 {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::vector<std::string> all_files_of(const std::string& pattern) {
  std::vector<std::string> files;
  for (const std::string& match : matching_files(pattern))
    for (std::string& file : files_of(match)) files.push_back(std::move(file));
  return files;
}

std::vector<std::string> existing_files(const DatasetEntry& entry, const std::string& folder, const std::string& name,
                                        const Attributes& options) {
  std::vector<std::string> files;
  for (const PublishedFile& file : files_of_part(entry, options)) {
    try {
      for (std::string& found : all_files_of(find_published(folder, file, name))) files.push_back(std::move(found));
    } catch (const Error&) {  // the set knows how to do without
    }
  }
  return files;
}

// The set or file as it is.
DataSource open_set(const Json& fields) {
  const auto name = fields.at("dataset").get<std::string>();
  const std::vector<std::string> words = split(fields.at("options"), ';');
  Attributes options;
  DataSource source;
  if (const DatasetEntry* entry = find_registered<datasets>(name)) {
    for (const std::string& word : words) set_option(options, word, entry->options, "[data]");
    const std::string folder = data_folder(fields.at("data"));
    source.data = open_dataset(name, folder, options);
    source.named = existing_files(*entry, folder, name, options);
    return source;
  }
  auto kind = fields.at("container").get<std::string>();
  if (kind.empty() && std::filesystem::path(name).extension().empty()) require_set_or_file(name);
  if (kind.empty()) kind = guess_container(name);
  for (const std::string& word : words) set_option(options, word, container(kind).options, "[data]");
  source.data = open_container(kind, name, options);
  source.named = all_files_of(name);
  return source;
}

std::optional<Shape> image_shape(const Dataset& set) {
  for (const Field& field : set.fields())
    if (field.name == "image") return field.shape;
  return {};
}

// What the stored samples depend on: the fields that choose them, and the files as they are now.
Json identity_of(const Json& fields, const DataSource& source) {
  Json identity;
  for (const char* name : {"dataset", "container", "options", "samples", "pixels", "fit", "store", "decoder"})
    identity[name] = fields.at(name);
  for (const std::string& file : source.named) identity["files"].push_back(file_identity(file));
  return identity;
}

}  // namespace

const std::vector<CaseField>& data_fields() {
  static const std::vector<CaseField> fields{
      {"dataset", "generated-images"},
      {"container", ""},
      {"options", ""},
      {"data", ""},
      {"samples", -1},
      {"pixels", -1},
      {"fit", "resize", {"resize", "crop"}},
      {"store", ""},
      {"decoder", "", {"", "none", "jpeg", "png", "raw"}},
      {"path", ""},
      {"access", "shuffle", {"ordered", "shuffle", "choice", "weighted"}},
      {"augment", ""},
      {"batch", 128},
      {"threads", 1},
      {"processes", 1},
      {"ahead", 4},
      {"cache", "hot", {"hot", "cold"}},
      {"on_error", "fail", {"fail", "skip"}},
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
  DataSource source = open_set(fields);
  source.files = source.data->files();
  source.in_files = source.data->size();
  const auto samples = fields.at("samples").get<Index>();
  if (samples >= 0) source.data = range(source.data, 0, std::min(samples, source.data->size()));
  const auto pixels = fields.at("pixels").get<Index>();
  const DecodeOptions decoding{.height = pixels, .width = pixels, .resize = fields.at("fit") == "resize"};
  const auto store = fields.at("store").get<std::string>(), decoder = fields.at("decoder").get<std::string>();
  const bool unpack_first = !store.empty() && !decoder.empty();
  if (pixels >= 0 && (store.empty() || unpack_first)) source.data = decoded(source.data, decoding);
  if (store.empty()) return source;

  const Shape whole = image_shape(*source.data).value_or(Shape{});
  if (unpack_first && decoder != "none") source.data = encoded(source.data, decoder);
  const StoredData made = store_samples(*source.data, store, fields.at("path"), identity_of(fields, source));
  source.data = open_container(store, made.path);
  source.files = source.data->files();
  source.in_files = source.data->size();
  source.named = files_of(made.path);
  source.stored = {{"path", made.path},
                   {"bytes", made.bytes},
                   {"seconds", made.seconds},
                   {"bytes_per_s", made.bytes / std::max(1e-9, made.seconds)}};
  if (decoder.empty() && pixels >= 0)
    source.data = decoded(source.data, decoding);
  else if (whole.rank() == 3 && holds_encoded(*source.data))  // a folder packs pixels by itself
    source.data = decoded(source.data, {.channels = whole[0], .height = whole[1], .width = whole[2]});
  return source;
}

}  // namespace d5
