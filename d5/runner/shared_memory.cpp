// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/shared_memory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace d5 {
namespace {

constexpr size_t block_bytes = size_t{1} << 30;  // one call moves less than 2 GiB

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

// By write and not through a mapping: a full memory file system is then an error and not a SIGBUS.
void write_shared(const std::string& path, const Tensor& tensor) {
  if (tensor.dtype() == DType::string) throw Error("[shared memory] strings cannot be fetched");
  const Tensor host = tensor.to(host_memory());
  const int file = open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (file < 0) throw Error("[shared memory] cannot open {}: {}", path, std::strerror(errno));
  const auto* from = static_cast<const char*>(host.data());
  int reason = 0;
  for (size_t done = 0; done < host.bytes() && reason == 0;) {
    const ssize_t n = write(file, from + done, std::min(block_bytes, host.bytes() - done));
    if (n >= 0)
      done += static_cast<size_t>(n);
    else if (errno != EINTR)
      reason = errno;
  }
  close(file);
  if (reason != 0)
    throw Error("[shared memory] cannot write {} bytes to {}: {}", host.bytes(), path, std::strerror(reason));
}

}  // namespace d5
