// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/parts.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "d5/core/registry.hpp"

namespace d5 {
namespace {

// Beside the modules of backends.
std::filesystem::path part_folder() {
  if (const char* path = std::getenv("D5_BACKEND_PATH"); path && *path) return path;
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&part_statuses), &info) || !info.dli_fname)
    throw Error("[data] libd5 cannot find its own file; set D5_BACKEND_PATH to the folder of the modules");
  return std::filesystem::absolute(info.dli_fname).parent_path() / "d5";
}

}  // namespace

std::vector<PartStatus> part_statuses() {
  const std::filesystem::path folder = part_folder();
  std::vector<PartStatus> statuses;
  std::ifstream file(folder / "parts.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    PartStatus part;
    std::string state;
    std::getline(cells, part.kind, '|');
    std::getline(cells, part.name, '|');
    std::getline(cells, state, '|');
    std::getline(cells, part.reason);
    part.available = state != "off";
    if (state == "module") part.module = (folder / ("libd5_" + part.name + ".so")).string();
    if (!part.module.empty() && !std::filesystem::exists(part.module)) {
      part.available = false;
      part.reason = fmt::format("its module {} is not there", part.module);
    }
    statuses.push_back(std::move(part));
  }
  return statuses;
}

PartStatus part_status(std::string_view name) {
  for (PartStatus& part : part_statuses())
    if (part.name == name) return part;
  return {"", std::string(name), false, "it was not built"};
}

void open_part(std::string_view kind, std::string_view name) {
  if (std::ranges::count(registry_names(kind), name)) return;
  for (const PartStatus& part : part_statuses()) {
    if (part.kind != kind || part.name != name) continue;
    if (!part.available) throw Error("[data] {} '{}' is off: {}", kind, name, part.reason);
    if (!part.module.empty()) load_plugin(part.module);
  }
}

std::vector<PartStatus> all_of_kind(std::string_view kind) {
  std::vector<PartStatus> all;
  for (PartStatus& part : part_statuses())
    if (part.kind == kind) all.push_back(std::move(part));
  for (const std::string& name : registry_names(kind))
    if (std::ranges::none_of(all, [&](const PartStatus& p) { return p.name == name; }))
      all.push_back({std::string(kind), name, true, "", ""});
  std::ranges::sort(all, {}, &PartStatus::name);
  return all;
}

}  // namespace d5
