// SPDX-License-Identifier: Apache-2.0
// The writing half of storage.hpp.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "d5/core/error.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/storage.hpp"

namespace d5 {
namespace {

constexpr size_t block_bytes = size_t{4} << 20;

// A folder of our own inside the one to be measured; gone with all in it at the end.
class OwnFolder {
 public:
  explicit OwnFolder(const std::string& inside) {
    std::string pattern = inside + "/d5-storage-XXXXXX";
    if (!::mkdtemp(pattern.data())) throw Error("[storage] {}: no folder can be made in it", inside);
    path_ = pattern;
  }
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

class Written {
 public:
  explicit Written(std::string path)
      : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
    if (descriptor_ < 0) throw Error("[storage] {}: cannot be written", path_);
  }
  ~Written() { ::close(descriptor_); }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  void write(const char* data, size_t bytes) const {
    while (bytes > 0) {
      const ssize_t done = ::write(descriptor_, data, bytes);
      if (done <= 0) throw Error("[storage] {}: {} bytes cannot be written", path_, bytes);
      data += done;
      bytes -= static_cast<size_t>(done);
    }
  }
  void sync() const {
    if (::fsync(descriptor_) != 0) throw Error("[storage] {}: cannot be forced to storage", path_);
  }

 private:
  std::string path_;
  int descriptor_;
};

double per_second(double work, const std::function<void()>& body) {
  const double began = now_seconds();
  body();
  return work / std::max(1e-9, now_seconds() - began);
}

}  // namespace

SmallFileRates small_file_rates(const std::string& folder, int files, int64_t bytes) {
  if (files < 1 || bytes < 0)
    throw Error("[storage] {} files of {} bytes; legal: at least 1, of at least 0", files, bytes);
  const OwnFolder own(folder);
  std::vector<char> content(static_cast<size_t>(bytes), 'x');
  const auto each = [&](const std::function<void(const std::string&)>& act) {
    return per_second(files, [&] {
      for (int i = 0; i < files; ++i) act(own.file(std::to_string(i)));
    });
  };
  SmallFileRates rates;
  rates.created = each([&](const std::string& path) { Written(path).write(content.data(), content.size()); });
  rates.looked_up = each([](const std::string& path) {
    struct stat seen;
    if (::stat(path.c_str(), &seen) != 0) throw Error("[storage] {} is gone", path);
  });
  rates.read = each([&](const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t got = descriptor < 0 ? -1 : ::read(descriptor, content.data(), content.size());
    if (descriptor >= 0) ::close(descriptor);
    if (got != static_cast<ssize_t>(content.size())) throw Error("[storage] {}: {} bytes of {} read", path, got, bytes);
  });
  rates.removed = each([](const std::string& path) {
    if (::unlink(path.c_str()) != 0) throw Error("[storage] {} cannot be removed", path);
  });
  return rates;
}

double checkpoint_write_rate(const std::string& folder, int64_t bytes) {
  if (bytes < 1) throw Error("[storage] a checkpoint of {} bytes; legal: at least 1", bytes);
  const OwnFolder own(folder);
  const std::vector<char> block(block_bytes, 'x');
  return per_second(static_cast<double>(bytes), [&] {
    const Written file(own.file("part"));
    for (int64_t left = bytes; left > 0; left -= static_cast<int64_t>(block_bytes))
      file.write(block.data(), static_cast<size_t>(std::min(left, static_cast<int64_t>(block_bytes))));
    file.sync();
    std::filesystem::rename(own.file("part"), own.file("checkpoint"));
  });
}

double staging_rate(const std::vector<std::string>& files, const std::string& folder) {
  const OwnFolder own(folder);
  const auto bytes = static_cast<double>(bytes_of(files));
  std::vector<char> block(block_bytes);
  const double rate = per_second(bytes, [&] {
    for (size_t i = 0; i < files.size(); ++i) {
      const int from = ::open(files[i].c_str(), O_RDONLY | O_CLOEXEC);
      if (from < 0) throw Error("[storage] {}: cannot be read", files[i]);
      const Written to(own.file(std::to_string(i)));
      for (ssize_t got; (got = ::read(from, block.data(), block.size())) > 0;)
        to.write(block.data(), static_cast<size_t>(got));
      ::close(from);
      to.sync();
    }
  });
  return bytes > 0 ? rate : 0;
}

}  // namespace d5
