// SPDX-License-Identifier: Apache-2.0
// A file in memory, read once, without a copy: the pages of the system's own cache.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace d5 {

class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path&);  // Error says why it cannot be read; at most 2 GiB
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return {static_cast<const char*>(data_), bytes_}; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// The path of a tensor's external data. Error where it is not a plain file below `folder`: a network must not be able
// to read what does not belong to it.
std::filesystem::path external_file(const std::filesystem::path& folder, const std::string& location);

// Reads exactly `bytes` bytes from `offset` on. Error where the file is shorter.
void check_part(const std::filesystem::path&, size_t offset, size_t bytes);  // the same without reading
void read_part(const std::filesystem::path&, size_t offset, size_t bytes, void* to);

}  // namespace d5
