// SPDX-License-Identifier: Apache-2.0
// The dynamic linker's own list says which libraries a loaded module came with; no search path has to be imitated.
#include "d5/measure/disk_footprint.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The texts that a loaded object gives under a tag: DT_NEEDED, the file names it needs; DT_SONAME, its own.
std::vector<std::string> texts(const link_map& object, ElfW(Sxword) tag) {
  ElfW(Addr) strings = 0;
  for (const ElfW(Dyn)* entry = object.l_ld; entry && entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
  std::vector<std::string> found;
  if (strings == 0) return found;
  // The linker writes the real address into the table, except where the table is read-only (the kernel's own object).
  if (strings < object.l_addr) strings += object.l_addr;
  for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == tag) found.emplace_back(reinterpret_cast<const char*>(strings) + entry->d_un.d_val);
  return found;
}

std::string name_of(const link_map& object) {
  const auto own = texts(object, DT_SONAME);
  return own.empty() ? fs::path(object.l_name).filename().string() : own.front();
}

// An object and everything it needs, directly or not.
std::set<const link_map*> closure(const link_map* start, const std::map<std::string, const link_map*>& by_name) {
  std::set<const link_map*> seen;
  std::vector<const link_map*> open{start};
  while (!open.empty()) {
    const link_map* object = open.back();
    open.pop_back();
    if (!seen.insert(object).second) continue;
    for (const std::string& name : texts(*object, DT_NEEDED))
      if (const auto found = by_name.find(name); found != by_name.end()) open.push_back(found->second);
  }
  return seen;
}

std::vector<fs::path> libraries_of(const fs::path& module) {
  void* program = dlopen(nullptr, RTLD_LAZY);
  link_map* first = nullptr;
  dlinfo(program, RTLD_DI_LINKMAP, &first);
  std::map<std::string, const link_map*> by_name;
  const link_map* loaded = nullptr;
  std::error_code ignored;
  for (const link_map* object = first; object; object = object->l_next) {
    by_name.emplace(name_of(*object), object);
    if (*object->l_name && fs::equivalent(object->l_name, module, ignored)) loaded = object;
  }
  std::vector<fs::path> libraries;
  if (loaded) {
    const auto own = closure(first, by_name);
    for (const link_map* object : closure(loaded, by_name))
      if (object != loaded && !own.contains(object) && *object->l_name)
        libraries.push_back(fs::canonical(object->l_name, ignored));
  }
  dlclose(program);
  std::sort(libraries.begin(), libraries.end());
  return libraries;
}

int64_t folder_bytes(const fs::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_symlink() && entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
  return bytes;
}

}  // namespace

json disk_footprint(const fs::path& path) try {
  const bool folder = fs::is_directory(path);
  const int64_t bytes = folder ? folder_bytes(path) : static_cast<int64_t>(fs::file_size(path));
  int64_t total = bytes;
  json libraries = json::array();
  if (!folder)
    for (const fs::path& library : libraries_of(path)) {
      const auto size = static_cast<int64_t>(fs::file_size(library));
      libraries.push_back({{"path", library.string()}, {"bytes", size}});
      total += size;
    }
  return {{"path", path.string()}, {"bytes", bytes}, {"libraries", libraries}, {"total_bytes", total}};
} catch (const fs::filesystem_error& e) {
  throw Error("[disk footprint] {}: {}", path.string(), e.code().message());
}

}  // namespace d5
