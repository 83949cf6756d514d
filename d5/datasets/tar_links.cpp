// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/tar_links.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

namespace d5 {
namespace {

// As Linux has them. What is longer leads nowhere, so that following is bounded whatever the archive says.
constexpr int most_links = 40;
constexpr size_t most_path = 4096, most_parts = 1000;

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0, end = 0; begin < path.size(); begin = end + 1) {
    end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") parts.push_back(part);
  }
  return parts;
}

void descend(std::string& path, std::string_view part) {
  if (!path.empty()) path += '/';
  path += part;
}

void ascend(std::string& path) {
  const size_t slash = path.rfind('/');
  path.resize(slash == std::string::npos ? 0 : slash);
}

}  // namespace

TarLinks::TarLinks(TarWalk all) {
  for (TarMember member; all.next(member);) {
    if (member.leaves_folder) continue;
    std::string name;
    for (const std::string_view part : parts_of(member.name)) descend(name, part);
    members_.insert_or_assign(std::move(name), member);
  }
}

bool TarLinks::is_folder(const std::string& path) const {
  if (path.empty()) return true;
  const auto inside = members_.lower_bound(path + "/");
  return inside != members_.end() && inside->first.starts_with(path + "/");
}

TarLinks::Target TarLinks::follow(const TarMember& link) const {
  std::string path;
  std::vector<std::string_view> ahead;  // the next part last
  int links = 0;
  size_t parts = 0;
  // A hard link names a member; a symbolic one lies in the folder that `path` is. Gives why following ends here.
  const auto enter = [&](const TarMember& one) -> std::optional<End> {
    if (one.link.size() > most_path) return End::nowhere;
    if (++links > most_links) return End::circle;
    if (one.link.starts_with('/')) return End::leaves;
    if (one.kind == TarMember::hard_link) path.clear();
    const auto target = parts_of(one.link);
    ahead.insert(ahead.end(), target.rbegin(), target.rend());
    return {};
  };
  for (const std::string_view part : parts_of(link.name)) descend(path, part);
  ascend(path);
  if (const auto end = enter(link)) return {*end};
  while (!ahead.empty()) {
    const std::string_view part = ahead.back();
    ahead.pop_back();
    if (part == "..") {
      if (path.empty()) return {End::leaves};
      ascend(path);
      continue;
    }
    descend(path, part);
    if (++parts > most_parts || path.size() > most_path) return {End::nowhere};
    const auto found = members_.find(path);
    const bool is_link = found != members_.end() &&
                         (found->second.kind == TarMember::hard_link || found->second.kind == TarMember::symbolic_link);
    if (!is_link) {
      const bool passable = found == members_.end() ? is_folder(path) : found->second.kind == TarMember::folder;
      if (!ahead.empty() && !passable) return {End::nowhere};
      continue;
    }
    ascend(path);
    if (const auto end = enter(found->second)) return {*end};
  }
  const auto found = members_.find(path);
  if (found != members_.end() && found->second.kind == TarMember::file)
    return {End::file, found->second.offset, found->second.size};
  return {found != members_.end() || is_folder(path) ? End::folder : End::nowhere};
}

}  // namespace d5
