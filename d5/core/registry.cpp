// SPDX-License-Identifier: Apache-2.0
#include "d5/core/registry.hpp"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <utility>

#include "d5/core/origin.hpp"

namespace d5 {
namespace {

struct Slot {
  const std::type_info* type;
  std::shared_ptr<const void> entry;
  std::string origin;
};
struct Registries {
  std::mutex mutex;
  std::map<std::string, std::map<std::string, Slot, std::less<>>, std::less<>> kinds;
  std::vector<std::shared_ptr<const void>> all_entries;  // replaced ones too: callers hold plain references
  std::vector<Replacement> replaced;
};
Registries& registries() {
  static Registries all;
  return all;
}

thread_local std::string opening;  // the plugin whose registration lines run on this thread right now

}  // namespace

inline namespace D5_ABI {

void registry_add(std::string_view kind, std::string_view name, const std::type_info& type,
                  std::shared_ptr<const void> entry) {
  auto& all = registries();
  const std::scoped_lock lock(all.mutex);
  // A later entry of the same name replaces the earlier one: a user's kernel or operator may override a built-in.
  all.all_entries.push_back(entry);
  auto& entries = all.kinds[std::string(kind)];
  if (const auto found = entries.find(name); found != entries.end())
    all.replaced.push_back({std::string(kind), std::string(name), found->second.origin, opening});
  entries.insert_or_assign(std::string(name), Slot{&type, std::move(entry), opening});
}

std::shared_ptr<const void> registry_find(std::string_view kind, std::string_view name, const std::type_info& type) {
  auto& all = registries();
  const std::scoped_lock lock(all.mutex);
  const auto entries = all.kinds.find(kind);
  if (entries == all.kinds.end()) return nullptr;
  const auto slot = entries->second.find(name);
  if (slot == entries->second.end()) return nullptr;
  if (*slot->second.type != type)
    throw Error("[registry] {} '{}' was registered as another type: a plugin of another version?", kind, name);
  return slot->second.entry;
}

std::vector<std::string> registry_names(std::string_view kind) {
  auto& all = registries();
  const std::scoped_lock lock(all.mutex);
  std::vector<std::string> names;
  if (const auto entries = all.kinds.find(kind); entries != all.kinds.end())
    for (const auto& [name, slot] : entries->second) names.push_back(name);
  return names;
}

std::string registry_origin(std::string_view kind, std::string_view name) {
  auto& all = registries();
  const std::scoped_lock lock(all.mutex);
  const auto entries = all.kinds.find(kind);
  if (entries == all.kinds.end()) return {};
  const auto slot = entries->second.find(name);
  return slot == entries->second.end() ? "" : slot->second.origin;
}

}  // namespace D5_ABI

std::vector<Replacement> replacements() {
  auto& all = registries();
  const std::scoped_lock lock(all.mutex);
  return all.replaced;
}

size_t load_plugin(const std::string& path) {
  const auto entries = [] {
    const std::scoped_lock lock(registries().mutex);
    return registries().all_entries.size();
  };
  const size_t before = entries();
  const std::string outer = std::exchange(opening, path);
  void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  opening = outer;
  if (opened) return entries() - before;
  const std::string reason = dlerror();
  // A missing symbol of namespace d5, mangled: the plugin expects another ABI's.
  if (reason.find("undefined symbol: _ZN2d5") != std::string::npos ||
      reason.find("undefined symbol: _ZNK2d5") != std::string::npos)
    throw Error("[plugin] {} was built for another version of libd5; rebuild it against this one ({})", path, reason);
  throw Error("[plugin] {} does not load: {}", path, reason);
}

}  // namespace d5
