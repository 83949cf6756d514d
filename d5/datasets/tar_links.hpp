// SPDX-License-Identifier: Apache-2.0
// Where the links among the members of a tar archive lead, as a file system would follow them once all is unpacked:
// folder by folder, through further links. Of members of one name the last one counts.
#pragma once

#include <map>
#include <string>

#include "d5/datasets/unpack.hpp"

namespace d5 {

class TarLinks {
 public:
  explicit TarLinks(TarWalk all);  // walks once over the archive

  enum class End { file, folder, leaves, nowhere, circle };  // leaves: the archive's own folder
  struct Target {
    End end;
    uint64_t offset = 0, size = 0;  // of the file
  };
  Target follow(const TarMember& link) const;

 private:
  bool is_folder(const std::string& path) const;
  std::map<std::string, TarMember> members_;  // by the name without ./ and double slashes
};

}  // namespace d5
