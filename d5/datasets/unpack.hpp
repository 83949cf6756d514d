// SPDX-License-Identifier: Apache-2.0
// Tar headers (POSIX ustar and pax, GNU long names), and what is taken out of a packed archive once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace d5 {

struct TarMember {
  enum Kind { file, hard_link, symbolic_link, folder };
  Kind kind = file;
  std::string name;
  uint64_t header = 0;  // where its header lies
  uint64_t offset = 0;  // where its contents begin
  uint64_t size = 0;
  std::string link;            // of a hard link the name of another member; of a symbolic one a path from its folder
  bool leaves_folder = false;  // an absolute name or one with .. : never written anywhere
};

// Reads `bytes` of the archive at `offset`; false where they are not there.
using ReadArchive = std::function<bool(uint64_t offset, void* to, size_t bytes)>;

// The files, links and folders of an archive, one by one; Error naming the archive and the place where it is broken.
class TarWalk {
 public:
  TarWalk(std::string archive, ReadArchive read) : archive_(std::move(archive)), read_(std::move(read)) {}
  bool next(TarMember&);  // false: the end

 private:
  std::string archive_;
  ReadArchive read_;
  uint64_t at_ = 0;
};

// The 512 bytes (more where the name is long) that stand before a member's contents.
std::string tar_header(const std::string& name, uint64_t size);
inline uint64_t tar_padding(uint64_t size) { return (512 - size % 512) % 512; }

// Unpacks those members of a .tar, .tar.gz or .tar.xz whose file name is wanted, once, into the user's cache; gives the
// folder. `most` bounds the bytes of a member.
std::string unpacked_folder(const std::string& archive, const std::vector<std::string>& wanted, uint64_t most);

}  // namespace d5
