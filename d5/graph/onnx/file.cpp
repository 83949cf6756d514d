// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/onnx/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;

constexpr size_t most_bytes = (size_t{1} << 31) - 1;  // of a protobuf message

class Descriptor {
 public:
  explicit Descriptor(const fs::path& path) : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (number_ < 0) throw Error("cannot be read: {}", std::strerror(errno));
    struct stat status {};
    if (fstat(number_, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(number_);
      throw Error("is no plain file");
    }
    bytes_ = static_cast<size_t>(status.st_size);
  }
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  size_t bytes() const { return bytes_; }

 private:
  int number_;
  size_t bytes_ = 0;
};

void check_part(const Descriptor& file, const fs::path& path, size_t offset, size_t bytes) {
  if (offset > file.bytes() || bytes > file.bytes() - offset)
    throw Error("wants {} bytes from byte {} of {}, which has {}", bytes, offset, path.filename().string(),
                file.bytes());
}

}  // namespace

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor file(path);
  if (file.bytes() > most_bytes)
    throw Error("has {} bytes; a message holds at most 2 GiB, a larger network keeps its tensors as external data",
                file.bytes());
  bytes_ = file.bytes();
  if (bytes_ == 0) return;
  data_ = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file.number(), 0);
  if (data_ == MAP_FAILED) throw Error("cannot be mapped: {}", std::strerror(errno));
}

MappedFile::~MappedFile() {
  if (bytes_ > 0) munmap(data_, bytes_);
}

fs::path external_file(const fs::path& folder, const std::string& location) {
  const auto refuse = [&](const char* why) {
    throw Error("its external data is in '{}', {}; a file below the folder of the network is wanted", location, why);
  };
  const fs::path relative(location);
  if (location.empty()) refuse("which is no name");
  if (location.find('\0') != std::string::npos) throw Error("the name of its external data has a zero byte");
  if (relative.is_absolute()) refuse("an absolute path");
  if (std::ranges::find(relative, fs::path("..")) != relative.end()) refuse("which leaves the folder");
  std::error_code failed;
  const fs::path root = fs::canonical(folder.empty() ? fs::path(".") : folder, failed);
  const fs::path path = failed ? fs::path() : fs::canonical(root / relative, failed);
  if (failed) refuse("which is not there");
  const auto [end, ignored] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  if (end != root.end()) refuse("a link that leaves the folder");
  return path;
}

void check_part(const fs::path& path, size_t offset, size_t bytes) {
  check_part(Descriptor(path), path, offset, bytes);
}

void read_part(const fs::path& path, size_t offset, size_t bytes, void* to) {
  const Descriptor file(path);
  check_part(file, path, offset, bytes);
  for (size_t done = 0; done < bytes;) {
    const ssize_t got =
        pread(file.number(), static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw Error("cannot be read: {}", got < 0 ? std::strerror(errno) : "it shrank");
    done += static_cast<size_t>(got);
  }
}

}  // namespace d5
