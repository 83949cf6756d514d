// SPDX-License-Identifier: Apache-2.0
// A file that is there whole or not at all: written under another name, renamed by commit(). A name that ends in .gz is
// packed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace d5 {

class FileWriter {
 public:
  explicit FileWriter(std::string path);  // makes its folder, if need be
  ~FileWriter();                          // without commit(): nothing stays
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  uint64_t written() const { return written_; }  // before packing
  void commit();

 private:
  struct Target;
  std::string path_, temporary_;
  std::unique_ptr<Target> target_;
  uint64_t written_ = 0;
};

// The same for a folder, or a file that a library writes: made at path(), renamed by commit().
class UnfinishedPath {
 public:
  explicit UnfinishedPath(std::string target);  // makes the folder that the target lies in, if need be
  ~UnfinishedPath();                            // without commit(): nothing stays
  UnfinishedPath(const UnfinishedPath&) = delete;
  UnfinishedPath& operator=(const UnfinishedPath&) = delete;

  const std::string& path() const { return path_; }
  void commit();  // a file takes the place of one that is there, a folder only that of an empty one

 private:
  std::string target_, path_;
  std::string made_folder_;  // empty: it was there
};

// $XDG_CACHE_HOME/d5/data or ~/.cache/d5/data: what is unpacked or indexed once. Empty where there is no such place.
std::string data_cache_folder();
// A name for what was made from this file, that changes when the file does: its full path, size and time of change.
std::string file_identity(const std::string& path);

}  // namespace d5
