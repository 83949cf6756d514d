// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/shared_memory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

namespace d5 {
namespace {

constexpr size_t block_bytes = size_t{1} << 30;  // one call moves less than 2 GiB
constexpr size_t alignment = 64;                 // of each tensor in a file of several

// By write and not through a mapping: a full memory file system is then an error and not a SIGBUS.
void write_all(int file, const std::string& path, const void* data, size_t bytes, size_t at) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = pwrite(file, static_cast<const char*>(data) + done, std::min(block_bytes, bytes - done),
                             static_cast<off_t>(at + done));
    if (n >= 0)
      done += static_cast<size_t>(n);
    else if (errno != EINTR)
      throw Error("[shared memory] cannot write {} bytes to {}: {}", bytes, path, std::strerror(errno));
  }
}

size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

SharedFile::SharedFile() {
  path_ = access("/dev/shm", W_OK) == 0 ? "/dev/shm/d5-XXXXXX" : "/tmp/d5-XXXXXX";
  descriptor_ = mkostemp(path_.data(), O_CLOEXEC);
  if (descriptor_ < 0) throw Error("[shared memory] cannot create {}: {}", path_, std::strerror(errno));
}

SharedFile::~SharedFile() {
  close(descriptor_);
  unlink(path_.c_str());
}

Tensor SharedFile::read(DType type, Shape shape) const {
  if (type == DType::string) throw Error("[shared memory] strings cannot be fetched");
  struct stat state {};
  fstat(descriptor_, &state);
  const int64_t wanted = storage_bytes(type, shape.elements());
  if (state.st_size != wanted)
    throw Error("[shared memory] {} bytes came for {}[{}], which has {}", state.st_size, name(type), to_string(shape),
                wanted);
  Tensor tensor(type, std::move(shape));
  auto* to = static_cast<char*>(tensor.data());
  for (size_t done = 0; done < tensor.bytes();) {
    const ssize_t n =
        pread(descriptor_, to + done, std::min(block_bytes, tensor.bytes() - done), static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      throw Error("[shared memory] cannot read {}: {}", path_, n < 0 ? std::strerror(errno) : "it is cut off");
    done += static_cast<size_t>(n);
  }
  return tensor;
}

void SharedFile::write(const std::vector<std::pair<std::string, Tensor>>& tensors) const {
  nlohmann::json rows = nlohmann::json::array();
  size_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype() == DType::string) throw Error("[shared memory] {}: strings cannot be sent", name);
    rows.push_back({{"name", name},
                    {"dtype", d5::name(tensor.dtype())},
                    {"shape", tensor.shape().sizes()},
                    {"offset", end},
                    {"bytes", tensor.bytes()}});
    end += aligned(tensor.bytes());
  }
  std::string header = nlohmann::json{{"tensors", rows}}.dump();
  header.resize(aligned(header.size() + 1) - 1, ' ');  // so that the first tensor is aligned, too
  header += '\n';
  write_all(descriptor_, path_, header.data(), header.size(), 0);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor host = tensors[i].second.to(host_memory());
    write_all(descriptor_, path_, host.data(), host.bytes(), header.size() + rows[i]["offset"].get<size_t>());
  }
}

void write_shared(const std::string& path, const Tensor& tensor) {
  if (tensor.dtype() == DType::string) throw Error("[shared memory] strings cannot be fetched");
  const Tensor host = tensor.to(host_memory());
  const int file = open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (file < 0) throw Error("[shared memory] cannot open {}: {}", path, std::strerror(errno));
  try {
    write_all(file, path, host.data(), host.bytes(), 0);
  } catch (...) {
    close(file);
    throw;
  }
  close(file);
}

}  // namespace d5
