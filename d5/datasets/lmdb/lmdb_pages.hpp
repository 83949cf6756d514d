// SPDX-License-Identifier: Apache-2.0
// Where the values of an LMDB file lie. The library trusts its file and crashes on a damaged one, so files are read
// here and every number in them is looked at; the library only writes.
#pragma once

#include <cstdint>
#include <vector>

#include "d5/datasets/file_bytes.hpp"

namespace d5 {

struct LmdbValue {
  uint64_t offset = 0, size = 0;  // in the file, and inside it
};
// Of the unnamed database, in the order of its keys. Error where the file is none, is cut short or is damaged.
std::vector<LmdbValue> lmdb_values(const FileBytes&);

}  // namespace d5
