// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/named.hpp"

#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>

#include "d5/datasets/file_writer.hpp"

namespace d5 {
namespace {

std::vector<std::string> places_of(const PublishedFile& file) {
  std::vector<std::string> places{file.path};
  places.insert(places.end(), file.instead.begin(), file.instead.end());
  return places;
}

}  // namespace

std::string data_folder(const std::string& given) {
  if (!given.empty()) return given;
  if (const char* folder = std::getenv("D5_DATA"); folder && *folder) return folder;
  const std::string cache = data_cache_folder();
  if (cache.empty()) throw UsageError("[data] there is no data folder: say --data DIR, or set D5_DATA or HOME");
  return cache + "/sets";
}

std::shared_ptr<const Dataset> open_dataset(const std::string& name, const std::string& folder,
                                            const Attributes& options) {
  const DatasetEntry& entry = registered<datasets>(name);
  return entry.open(folder, complete_options(options, entry.options, fmt::format("[{}]", name)));
}

void require_set_or_file(const std::string& source) {
  if (find_registered<datasets>(source) || source.find('*') != std::string::npos || std::filesystem::exists(source))
    return;
  throw UsageError("[data] '{}' is no data set (d5 list datasets: {}) and no file", source,
                   fmt::join(registry_names(datasets::kind), ", "));
}

std::vector<PublishedFile> files_of_part(const DatasetEntry& entry, const Attributes& options) {
  std::string part;
  for (const DataOption& option : entry.options)
    if (option.name == "part") part = options.text("part", to_string(option.otherwise));
  std::vector<PublishedFile> files;
  for (const PublishedFile& file : entry.files)
    if (file.part.empty() || file.part == part) files.push_back(file);
  return files;
}

std::string path_of(const std::string& folder, const PublishedFile& file) {
  for (const std::string& place : places_of(file))
    if (const std::string path = folder + "/" + place; any_file(path)) return path;
  return {};
}

std::string how_to_get(const std::string& folder, const PublishedFile& file, std::string_view dataset) {
  std::string message = fmt::format("[{}] {} is not in {}.", dataset, fmt::join(places_of(file), " or "), folder);
  if (!file.url.empty()) message += fmt::format(" Fetch it: d5 data fetch {}, or put there {}", dataset, file.url);
  if (!file.how.empty()) message += " " + file.how;
  if (!file.checksum.empty()) message += fmt::format(" ({})", file.checksum);
  return message;
}

std::string find_published(const std::string& folder, const PublishedFile& file, std::string_view dataset) {
  const std::string path = path_of(folder, file);
  if (path.empty()) throw Error(how_to_get(folder, file, dataset));
  return path;
}

}  // namespace d5
