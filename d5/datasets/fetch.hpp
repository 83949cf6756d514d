// SPDX-License-Identifier: Apache-2.0
// Files of named sets: fetched by HTTPS (with the program curl), resumed where they broke off, there whole and with the
// published checksum or not at all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "d5/datasets/named.hpp"

namespace d5 {

// Fetches what is missing, and what is damaged anew. Error that says which files to put where, if it cannot be done
// from here.
void fetch_dataset(const std::string& name, const std::string& folder,
                   const std::function<void(const std::string&)>& say);

struct FileVerdict {
  std::string path;  // the file, or the member of an archive
  bool good = true;
  std::string note;  // "md5:... as it should be (torchvision ...)", "md5:..., should be md5:..."
};
// Compares the files of a set with their published checksums; archives that were unpacked, member by member. Those that
// the options do not need (another part) may be missing.
std::vector<FileVerdict> verify_files(const std::string& name, const std::string& folder,
                                      const Attributes& options = {});

}  // namespace d5
