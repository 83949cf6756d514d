// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/file_bytes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <mutex>

namespace d5 {
namespace {

// A mapped file that somebody cuts short raises SIGBUS where it is read. During copy() that becomes an error; at any
// other place the signal means what it meant before.
__attribute__((tls_model("initial-exec"))) thread_local sigjmp_buf* volatile copying = nullptr;
struct sigaction signal_before;

void on_bus_error(int, siginfo_t*, void*) {
  if (copying) siglongjmp(*copying, 1);
  sigaction(SIGBUS, &signal_before, nullptr);  // the same access comes again, and meets the former handler
}

void watch_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGBUS, &action, &signal_before);
  });
}

// False where what `read` reads of a mapped file is not there any more.
template <class Read>
bool is_there(Read read) {
  sigjmp_buf back;
  if (sigsetjmp(back, 0)) {
    copying = nullptr;
    return false;
  }
  copying = &back;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the handler sees it before the first access
  read();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  copying = nullptr;
  return true;
}

// Looks at every page, so that a view is given only of what is there.
bool touch_mapped(const uint8_t* from, size_t bytes) {
  return is_there([&] {
    const volatile uint8_t* const byte = from;
    for (size_t i = 0; i < bytes; i += 4096) (void)byte[i];
    if (bytes > 0) (void)byte[bytes - 1];
  });
}

bool copy_mapped(void* to, const void* from, size_t bytes) {
  return is_there([&] { std::memcpy(to, from, bytes); });
}

struct Descriptor {
  int number;
  ~Descriptor() { close(number); }
};

}  // namespace

std::shared_ptr<const FileBytes> FileBytes::map(const std::string& path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0) throw Error("[data] {}: {}", path, std::strerror(errno));
  struct stat status {};
  if (fstat(file.number, &status) != 0) throw Error("[data] {}: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw Error("[data] {} is no plain file", path);
  std::shared_ptr<FileBytes> bytes(new FileBytes);
  bytes->name_ = path;
  bytes->size_ = static_cast<uint64_t>(status.st_size);
  if (bytes->size_ == 0) return bytes;
  void* const address = mmap(nullptr, bytes->size_, PROT_READ, MAP_SHARED, file.number, 0);
  if (address == MAP_FAILED) throw Error("[data] {} cannot be mapped: {}", path, std::strerror(errno));
  bytes->data_ = static_cast<const uint8_t*>(address);
  bytes->mapped_ = true;
  watch_bus_errors();
  return bytes;
}

std::shared_ptr<const FileBytes> FileBytes::of(std::string name, std::vector<uint8_t> contents) {
  std::shared_ptr<FileBytes> bytes(new FileBytes);
  bytes->name_ = std::move(name);
  bytes->owned_ = std::move(contents);
  bytes->data_ = bytes->owned_.data();
  bytes->size_ = bytes->owned_.size();
  return bytes;
}

FileBytes::~FileBytes() {
  if (mapped_) munmap(const_cast<uint8_t*>(data_), size_);
}

void FileBytes::check_range(uint64_t offset, uint64_t bytes) const {
  if (!holds(offset, bytes))
    throw SampleError("[data] {}: {} bytes from {} on are not there, the file has {}: is it cut short?", name_, bytes,
                      offset, size_);
}

void FileBytes::copy(uint64_t offset, uint64_t bytes, void* to) const {
  check_range(offset, bytes);
  if (bytes == 0) return;
  if (!mapped_)
    std::memcpy(to, data_ + offset, bytes);
  else if (!copy_mapped(to, data_ + offset, bytes))
    fail_mapped(offset, bytes);
}

void FileBytes::touch(uint64_t offset, uint64_t bytes) const {
  check_range(offset, bytes);
  if (mapped_ && !touch_mapped(data_ + offset, bytes)) fail_mapped(offset, bytes);
}

void FileBytes::fail_mapped(uint64_t offset, uint64_t bytes) const {
  throw SampleError("[data] {}: was cut short while it was read, or the disk failed (at {}, {} bytes)", name_, offset,
                    bytes);
}

std::vector<uint8_t> FileBytes::range(uint64_t offset, uint64_t bytes) const {
  check_range(offset, bytes);
  std::vector<uint8_t> found(bytes);
  copy(offset, bytes, found.data());
  return found;
}

void FileBytes::give(Sample& into, size_t field, DType type, const Shape& shape, uint64_t offset) const {
  const auto bytes = static_cast<uint64_t>(storage_bytes(type, shape.elements()));
  check_range(offset, bytes);
  const auto width = static_cast<uintptr_t>(bits(type) < 8 ? 1 : bits(type) / 8);
  const uint8_t* const from = data_ + offset;
  if (!into.at(field).present() && reinterpret_cast<uintptr_t>(from) % width == 0) {
    touch(offset, bytes);
    into[field] =
        Tensor::view(type, shape, const_cast<uint8_t*>(from), std::const_pointer_cast<FileBytes>(shared_from_this()));
    return;
  }
  copy(offset, bytes, target(into, field, type, shape).data());
}

Tensor& target(Sample& into, size_t field, DType type, const Shape& shape) {
  Tensor& tensor = into.at(field);
  if (!tensor.present()) {
    tensor = Tensor(type, shape);
  } else if (tensor.dtype() != type || tensor.elements() != shape.elements()) {
    throw SampleError("[data] field {} is {}[{}], there is room for {}[{}]", field, name(type), to_string(shape),
                      name(tensor.dtype()), to_string(tensor.shape()));
  }
  return tensor;
}

void give_copy(Sample& into, size_t field, DType type, const Shape& shape, const void* data) {
  Tensor& tensor = target(into, field, type, shape);
  if (const size_t bytes = tensor.bytes()) std::memcpy(tensor.data(), data, bytes);
}

Index classes_up_to(int64_t largest_label) { return std::clamp<int64_t>(largest_label, 0, int64_t{1} << 40) + 1; }

void give_label(Sample& into, size_t field, int64_t label, const Dataset& dataset, Index i) {
  const Field& described = dataset.fields()[field];
  if (described.classes && (label < 0 || label >= *described.classes))
    throw SampleError("[data] {}: {} is {}, legal: 0 to {}", dataset.where(i), described.name, label,
                      *described.classes - 1);
  *static_cast<int64_t*>(target(into, field, DType::i64, {}).data()) = label;
}

}  // namespace d5
