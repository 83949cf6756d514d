// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/file_writer.hpp"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "d5/core/error.hpp"
#include "d5/core/plugins.hpp"

namespace d5 {

struct FileWriter::Target {
  std::FILE* plain = nullptr;
  gzFile packed = nullptr;
  ~Target() { close(); }
  bool close() {
    bool good = true;
    if (plain) good = std::fclose(plain) == 0;
    if (packed) good = gzclose(packed) == Z_OK;
    plain = nullptr;
    packed = nullptr;
    return good;
  }
};

FileWriter::FileWriter(std::string path)
    : path_(std::move(path)),
      temporary_(fmt::format("{}.part-{}", path_, getpid())),
      target_(std::make_unique<Target>()) {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  if (path_.ends_with(".gz"))
    target_->packed = gzopen(temporary_.c_str(), "wb6");
  else
    target_->plain = std::fopen(temporary_.c_str(), "wb");
  if (!target_->packed && !target_->plain)
    throw Error("[data] {} cannot be written: {}", temporary_, std::strerror(errno));
}

FileWriter::~FileWriter() {
  if (!target_) return;
  target_->close();
  std::remove(temporary_.c_str());
}

void FileWriter::write(const void* data, size_t bytes) {
  if (bytes == 0) return;
  const bool good = target_->plain ? std::fwrite(data, 1, bytes, target_->plain) == bytes
                                   : gzfwrite(data, 1, bytes, target_->packed) == bytes;
  if (!good) throw Error("[data] {} cannot be written: {}", temporary_, std::strerror(errno));
  written_ += bytes;
}

void FileWriter::commit() {
  if (!target_->close()) throw Error("[data] {} cannot be written: {}", temporary_, std::strerror(errno));
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw Error("[data] {} cannot be renamed to {}: {}", temporary_, path_, std::strerror(errno));
  target_.reset();
}

UnfinishedPath::UnfinishedPath(std::string target) : target_(std::move(target)) {
  while (target_.size() > 1 && target_.ends_with('/')) target_.pop_back();
  path_ = fmt::format("{}.part-{}", target_, getpid());
  const std::filesystem::path folder = std::filesystem::path(target_).parent_path();
  std::error_code error;
  if (!folder.empty() && std::filesystem::create_directories(folder, error)) made_folder_ = folder.string();
  if (error) throw Error("[data] {} cannot be made: {}", folder.string(), error.message());
  std::filesystem::remove_all(path_, error);
}

UnfinishedPath::~UnfinishedPath() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (!made_folder_.empty()) std::filesystem::remove(made_folder_, ignored);  // only where it is empty
}

void UnfinishedPath::commit() {
  std::error_code error;
  std::filesystem::rename(path_, target_, error);
  if (error) throw Error("[data] {} cannot be renamed to {}: {}", path_, target_, error.message());
  made_folder_.clear();
}

std::string data_cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return std::string(cache) + "/d5/data";
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/d5/data";
  return {};
}

std::string file_identity(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) throw Error("[data] {}: {}", path, std::strerror(errno));
  std::error_code ignored;
  return content_hash(fmt::format("{}\n{}\n{}.{}", std::filesystem::weakly_canonical(path, ignored).string(),
                                  status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec))
      .substr(0, 16);
}

}  // namespace d5
