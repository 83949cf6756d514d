// SPDX-License-Identifier: Apache-2.0
// Bytes that come one after the other: a file that is unpacked while it is read.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "d5/core/registry.hpp"
#include "d5/datasets/file_bytes.hpp"

namespace d5 {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual size_t read(void* to, size_t bytes) = 0;  // fewer than asked for: the end. Error where the packing is broken
};

// How a whole file can be packed: gz, xz. A file recognises its own by the first bytes, whatever the name is.
struct CompressionEntry {
  std::string magic;   // how such a file begins
  double most_growth;  // unpacked bytes per packed one, at most: an absurd size is refused before memory is taken
  std::function<std::unique_ptr<ByteSource>(std::shared_ptr<const FileBytes>)> open;
};
struct compressions {
  static constexpr const char* kind = "compression";
  using Entry = CompressionEntry;
  template <class T>
  static Entry entry() {
    return {T::magic(), T::most_growth, T::open};
  }
};

// The name of its compression, or empty. Error where it is one whose part is not built.
std::string compression_of(const FileBytes&);
// The contents, unpacked if need be.
std::unique_ptr<ByteSource> open_source(std::shared_ptr<const FileBytes>);
// At most this many bytes can come out; reserve no more than that on the word of a header.
uint64_t most_contents(const FileBytes&);

// All of it, mapped where it is not packed. Error where more than `most` bytes come out.
std::shared_ptr<const FileBytes> whole_contents(const std::string& path, uint64_t most);

// Part of a zip file: deflated bytes without a header, of which `contents` come out.
std::vector<uint8_t> inflate_range(const std::shared_ptr<const FileBytes>&, uint64_t offset, uint64_t packed,
                                   uint64_t contents);

}  // namespace d5
