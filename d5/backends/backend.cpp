// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/backend.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "d5/core/plugins.hpp"

namespace d5 {
namespace {

std::filesystem::path module_folder() {
  if (const char* path = std::getenv("D5_BACKEND_PATH"); path && *path) return path;
  return library_folder() / "d5";
}

template <class Enum, size_t n>
Enum parse(const std::array<std::pair<const char*, Enum>, n>& all, std::string_view place, std::string_view what,
           std::string_view given) {
  std::vector<std::string> legal;
  for (const auto& [name, value] : all) {
    if (given == name) return value;
    legal.emplace_back(name);
  }
  fail_unknown(place, what, given, legal);
}

}  // namespace

bool CompileOptions::keeps(const std::string& value) const {
  return keep_all || std::ranges::find(keep, value) != keep.end();
}

Math parse_math(std::string_view name) {
  static constexpr std::array<std::pair<const char*, Math>, 4> all{
      {{"strict", Math::strict}, {"tf32", Math::tf32}, {"bf16", Math::bf16}, {"winograd", Math::winograd}}};
  return parse(all, "[backend]", "math", name);
}

LayoutChoice parse_layout(std::string_view name) {
  static constexpr std::array<std::pair<const char*, LayoutChoice>, 2> all{
      {{"plain", LayoutChoice::plain}, {"fast", LayoutChoice::fast}}};
  return parse(all, "[backend]", "layout", name);
}

DeviceName parse_device(std::string_view text) {
  if (text == "cpu") return {"cpu"};
  if (text == "cuda") return {"cuda"};
  constexpr std::string_view prefix = "cuda:";
  const std::string_view digits = text.starts_with(prefix) ? text.substr(prefix.size()) : "";
  int index = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (digits.empty() || end.ec != std::errc() || end.ptr != digits.data() + digits.size() || index < 0)
    throw UsageError("[backend] device is '{}'; legal: cpu, cuda, cuda:N", text);
  return {"cuda", index};
}

std::vector<BackendStatus> backend_statuses() {
  std::vector<BackendStatus> statuses;
  const std::filesystem::path folder = module_folder();
  std::ifstream file(folder / "backends.txt");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find('|'), second = line.find('|', first + 1);
    if (second == std::string::npos)
      throw Error("[backend] {}: '{}' is no line of the form name|on|about", (folder / "backends.txt").string(), line);
    BackendStatus status{line.substr(0, first), line.substr(first + 1, second - first - 1) == "on",
                         line.substr(second + 1)};
    const auto module = folder / ("libd5_" + status.name + ".so");
    if (std::filesystem::exists(module)) {
      status.module = module.string();
    } else if (status.available && !find_registered<backends>(status.name)) {
      status.available = false;
      status.reason = fmt::format("its module {} is not there", module.string());
    }
    statuses.push_back(std::move(status));
  }
  // Built into the library or brought by a plugin: they need no file.
  for (const std::string& name : registry_names(backends::kind))
    if (std::ranges::none_of(statuses, [&](const BackendStatus& s) { return s.name == name; }))
      statuses.push_back({name, true, "registered in this process", ""});
  for (const std::string& source : registry_names(backend_sources::kind))
    for (BackendStatus& status : registered<backend_sources>(source).statuses()) statuses.push_back(std::move(status));
  return statuses;
}

std::unique_ptr<Backend> open_backend(const std::string& name) {
  if (const auto* entry = find_registered<backends>(name)) return entry->make();
  for (const std::string& source : registry_names(backend_sources::kind)) {
    const auto& from = registered<backend_sources>(source);
    for (const BackendStatus& status : from.statuses())
      if (status.name == name) return from.open(name);
  }
  std::vector<std::string> legal;
  for (const BackendStatus& status : backend_statuses()) {
    legal.push_back(status.name);
    if (status.name != name) continue;
    if (!status.available) throw Error("[backend] {} is off: {}", name, status.reason);
    load_plugin(status.module);
    if (const auto* entry = find_registered<backends>(name)) return entry->make();
    throw Error("[backend] {} was loaded but registers no backend '{}'", status.module, name);
  }
  fail_unknown("[backend]", "backend", name, legal);
}

}  // namespace d5
