// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/file_bytes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

namespace d5 {

// A mapped file that somebody cuts short raises SIGBUS where it is read. Its handler cannot leave the code that reads,
// which may be a library's, so it lets it go on: with zeros, up to the end of the mapping. Mappings are never freed,
// because the handler may look at them at any time; they are used again.
struct FileBytes::Mapping {
  std::atomic<const uint8_t*> data{nullptr};
  std::atomic<uint64_t> size{0};   // 0: not in use
  std::atomic<uint64_t> there{0};  // from here on zeros stand for what cannot be read
  std::string name;
  Mapping* next = nullptr;

  static inline std::atomic<Mapping*> first{nullptr};
  static inline std::atomic<bool> any_cut{false};
  static inline std::mutex adding;
  static inline struct sigaction signal_before;
  static inline uint64_t page = 4096;

  bool contains(const void* address) const {
    const auto* const byte = static_cast<const uint8_t*>(address);
    const uint8_t* const begin = data.load();
    const uint64_t bytes = size.load();
    return bytes > 0 && byte >= begin && byte < begin + (bytes + page - 1) / page * page;
  }
  static Mapping* of(const void* address) {
    Mapping* found = first.load();
    while (found && !found->contains(address)) found = found->next;
    return found;
  }
  static Mapping* add(const uint8_t* data, uint64_t size, const std::string& name) {
    const std::scoped_lock lock(adding);
    static std::once_flag once;
    std::call_once(once, watch);
    Mapping* free = first.load();
    while (free && free->size.load() > 0) free = free->next;
    if (!free) {
      free = new Mapping;
      free->next = first.load();
      first.store(free);
    }
    free->name = name;
    free->data.store(data);
    free->there.store(size);
    free->size.store(size);
    return free;
  }
  static void remove(Mapping* mapping) {
    const std::scoped_lock lock(adding);
    mapping->size.store(0);
  }
  void require_there(uint64_t offset, uint64_t bytes) const {
    std::atomic_thread_fence(std::memory_order_acquire);  // what was read was read before
    if (offset + bytes > there.load(std::memory_order_acquire))
      throw SampleError("[data] {}: was cut short while it was read, or the disk failed (at {}, {} bytes)", name,
                        offset, bytes);
  }

 private:
  static void watch() {
    page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, &signal_before);
  }
  static void on_bus_error(int, siginfo_t* info, void*) {
    const int error = errno;
    if (Mapping* const mapping = of(info->si_addr)) {
      const uint8_t* const begin = mapping->data.load();
      const uint64_t at = static_cast<uint64_t>(static_cast<const uint8_t*>(info->si_addr) - begin) / page * page;
      for (uint64_t there = mapping->there.load(); at < there && !mapping->there.compare_exchange_weak(there, at);) {
      }
      any_cut.store(true);
      // The call itself: sanitizers replace the function by one that is not for signal handlers.
      const long zeros = syscall(SYS_mmap, begin + at, mapping->size.load() - at, PROT_READ,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
      errno = error;
      if (zeros != -1) return;
    }
    sigaction(SIGBUS, &signal_before, nullptr);  // the same access comes again, and meets the former handler
  }
};

namespace {

struct Descriptor {
  int number;
  ~Descriptor() { close(number); }
};

}  // namespace

std::shared_ptr<const FileBytes> FileBytes::map(const std::string& path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe would wait for its writer
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
  bytes->mapping_ = Mapping::add(bytes->data_, bytes->size_, path);
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
  if (!mapping_) return;
  Mapping::remove(mapping_);
  munmap(const_cast<uint8_t*>(data_), size_);
}

void FileBytes::check_range(uint64_t offset, uint64_t bytes) const {
  if (!holds(offset, bytes))
    throw SampleError("[data] {}: {} bytes from {} on are not there, the file has {}: is it cut short?", name_, bytes,
                      offset, size_);
}

void FileBytes::copy(uint64_t offset, uint64_t bytes, void* to) const {
  check_range(offset, bytes);
  if (bytes == 0) return;
  std::memcpy(to, data_ + offset, bytes);
  if (mapping_) mapping_->require_there(offset, bytes);
}

void FileBytes::touch(uint64_t offset, uint64_t bytes) const {
  check_range(offset, bytes);
  if (!mapping_) return;
  const volatile uint8_t* const byte = data_ + offset;
  for (uint64_t i = 0; i < bytes; i += 4096) (void)byte[i];
  if (bytes > 0) (void)byte[bytes - 1];
  mapping_->require_there(offset, bytes);
}

void FileBytes::require_there(uint64_t offset, uint64_t bytes) const {
  check_range(offset, bytes);
  if (mapping_) mapping_->require_there(offset, bytes);
}

void require_there(const void* from, uint64_t bytes) {
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!FileBytes::Mapping::any_cut.load(std::memory_order_relaxed)) return;
  if (const FileBytes::Mapping* const mapping = FileBytes::Mapping::of(from))
    mapping->require_there(static_cast<uint64_t>(static_cast<const uint8_t*>(from) - mapping->data.load()), bytes);
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
