// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/storage.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>
#include <utility>

#include "d5/core/error.hpp"
#include "d5/core/rng.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

class Opened {
 public:
  explicit Opened(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw Error("[storage] {}: cannot be read", path);
    bytes_ = ::lseek(descriptor_, 0, SEEK_END);
  }
  ~Opened() { ::close(descriptor_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  int descriptor() const { return descriptor_; }
  int64_t bytes() const { return bytes_; }

 private:
  int descriptor_;
  int64_t bytes_ = 0;
};

// Runs one reader a thread; each gives the bytes it read and stops at the deadline.
double rate_of(int threads, double seconds, const std::function<double(int reader, double deadline)>& read) {
  std::vector<double> bytes(static_cast<size_t>(threads));
  std::vector<std::thread> readers;
  const double began = now_seconds();
  for (int t = 1; t < threads; ++t)
    readers.emplace_back([&, t] { bytes[static_cast<size_t>(t)] = read(t, began + seconds); });
  bytes[0] = read(0, began + seconds);
  for (std::thread& reader : readers) reader.join();
  const double elapsed = now_seconds() - began;
  double sum = 0;
  for (const double b : bytes) sum += b;
  return elapsed > 0 ? sum / elapsed : 0;
}

struct Block {
  const std::string* file;
  int64_t offset, bytes;
};

// The files in blocks, each once, in random order; at most a million of them. Files that are not larger than a block
// on average stay whole.
std::vector<Block> shuffled_blocks(const std::vector<std::string>& files, int64_t block, uint64_t seed) {
  constexpr uint64_t most = 1 << 20;
  const bool whole = files.size() > 1 && bytes_of(files) <= block * static_cast<int64_t>(files.size());
  Rng rng(seed, 0);
  std::vector<Block> blocks;
  uint64_t seen = 0;
  for (const std::string& file : files) {
    const auto size = static_cast<int64_t>(std::filesystem::file_size(file));
    const int64_t step = whole ? size : block;
    for (int64_t at = 0; at < size; at += step, ++seen) {
      const Block one{&file, at, std::min(step, size - at)};
      const uint64_t place = rng.next_below(seen + 1);  // a shuffle from the inside out, of which the first `most` stay
      if (blocks.size() < most) {
        blocks.push_back(one);
        std::swap(blocks.back(), blocks[place]);
      } else if (place < most) {
        blocks[place] = one;
      }
    }
  }
  return blocks;
}

}  // namespace

std::vector<std::string> files_of(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return {path};
  std::vector<std::string> files;
  if (std::filesystem::is_directory(path, ignored))
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.is_regular_file()) files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

int64_t bytes_of(const std::vector<std::string>& files) {
  int64_t bytes = 0;
  for (const std::string& file : files) bytes += static_cast<int64_t>(std::filesystem::file_size(file));
  return bytes;
}

double cached_share(const std::vector<std::string>& files) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  double cached = 0, all = 0;
  for (const std::string& path : files) {
    const Opened file(path);
    if (file.bytes() == 0) continue;
    const auto bytes = static_cast<size_t>(file.bytes());
    void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (mapped == MAP_FAILED) throw Error("[storage] {}: cannot be mapped", path);
    std::vector<unsigned char> pages((bytes + page - 1) / page);
    const bool told = ::mincore(mapped, bytes, pages.data()) == 0;
    ::munmap(mapped, bytes);
    if (!told) throw Error("[storage] {}: the kernel does not tell which pages are cached", path);
    cached += static_cast<double>(std::ranges::count_if(pages, [](unsigned char p) { return p & 1; }));
    all += static_cast<double>(pages.size());
  }
  return all > 0 ? cached / all : 0;
}

void release_mapped_pages(const std::vector<std::string>& files) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const std::string& file : files) names.insert(std::filesystem::weakly_canonical(file, ignored).string());
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char shared = 0;
    int name = 0;
    // Pages that are shared with the file can be read again; others would be lost.
    if (std::sscanf(line.c_str(), "%lx-%lx %*3c%c %*s %*s %*s %n", &begin, &end, &shared, &name) == 3 && name > 0 &&
        shared == 's' && names.contains(line.substr(static_cast<size_t>(name))))
      ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}

void empty_page_cache(const std::vector<std::string>& files) {
  release_mapped_pages(files);
  for (const std::string& path : files) {
    const Opened file(path);
    ::fdatasync(file.descriptor());  // pages that are not written yet stay
    ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

void fill_page_cache(const std::vector<std::string>& files) {
  std::vector<char> block(1 << 20);
  for (const std::string& path : files) {
    const Opened file(path);
    for (int64_t at = 0, got = 1; got > 0; at += got) got = ::pread(file.descriptor(), block.data(), block.size(), at);
  }
}

double sequential_read_rate(const std::vector<std::string>& files, int threads, double seconds) {
  if (files.empty()) return 0;
  return rate_of(threads, seconds, [&](int reader, double deadline) {
    std::vector<char> block(1 << 20);
    double bytes = 0;
    // Readers share out the files, and a single file by stretches.
    for (size_t f = 0; f < files.size(); ++f) {
      const bool shared = files.size() < static_cast<size_t>(threads);
      if (!shared && f % static_cast<size_t>(threads) != static_cast<size_t>(reader)) continue;
      const Opened file(files[f]);
      const int64_t part = shared ? file.bytes() / threads : file.bytes();
      const int64_t first = shared ? part * reader : 0, last = first + part;
      for (int64_t at = first; at < last;) {
        const auto want = static_cast<size_t>(std::min<int64_t>(last - at, static_cast<int64_t>(block.size())));
        const ssize_t got = ::pread(file.descriptor(), block.data(), want, at);
        if (got <= 0) break;
        at += got;
        bytes += static_cast<double>(got);
        if (now_seconds() > deadline) return bytes;
      }
    }
    return bytes;
  });
}

double random_read_rate(const std::vector<std::string>& files, int64_t block, int threads, double seconds,
                        uint64_t seed) {
  if (block < 1) throw Error("[storage] blocks of {} bytes; legal: at least 1", block);
  const std::vector<Block> blocks = shuffled_blocks(files, block, seed);
  return rate_of(threads, seconds, [&](int reader, double deadline) {
    std::vector<char> buffer;
    std::optional<Opened> file;  // one file stays open; where there are many, opening each is part of reading it
    double bytes = 0;
    for (size_t b = static_cast<size_t>(reader); b < blocks.size(); b += static_cast<size_t>(threads)) {
      const Block& wanted = blocks[b];
      if (files.size() > 1 || !file) file.emplace(*wanted.file);
      buffer.resize(static_cast<size_t>(wanted.bytes));
      const ssize_t got = ::pread(file->descriptor(), buffer.data(), buffer.size(), wanted.offset);
      if (got <= 0) break;
      bytes += static_cast<double>(got);
      if (now_seconds() > deadline) break;
    }
    return bytes;
  });
}

double mapped_read_rate(const std::vector<std::string>& files, int64_t block, bool in_order, int threads,
                        double seconds, uint64_t seed) {
  if (block < 1) throw Error("[storage] blocks of {} bytes; legal: at least 1", block);
  const auto largest =
      std::ranges::max_element(files, {}, [](const std::string& f) { return std::filesystem::file_size(f); });
  if (largest == files.end()) return 0;
  const Opened file(*largest);
  if (file.bytes() == 0) return 0;
  const auto bytes = static_cast<size_t>(file.bytes());
  void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file.descriptor(), 0);
  if (mapped == MAP_FAILED) throw Error("[storage] {}: cannot be mapped", *largest);
  const int64_t size = std::min(block, file.bytes()), places = file.bytes() - size + 1;
  const double rate = rate_of(threads, seconds, [&](int reader, double deadline) {
    Rng rng(seed, static_cast<uint64_t>(reader));
    std::vector<char> buffer(static_cast<size_t>(size));
    double copied = 0;
    int64_t at = places / threads * reader;
    while (now_seconds() < deadline)
      for (int k = 0; k < 16; ++k, copied += static_cast<double>(size)) {
        __builtin_memcpy(buffer.data(), static_cast<const char*>(mapped) + at, buffer.size());
        asm volatile("" ::"r"(buffer.data()) : "memory");  // the copy is wanted though nobody looks at it
        at = in_order ? (at + size < places ? at + size : 0)
                      : static_cast<int64_t>(rng.next_below(static_cast<uint64_t>(places)));
      }
    return copied;
  });
  ::munmap(mapped, bytes);
  return rate;
}

std::optional<ReadCounters> read_counters() {
  std::ifstream file("/proc/self/io");
  ReadCounters counters;
  int found = 0;
  for (std::string name; file >> name;) {
    double value = 0;
    file >> value;
    if (name == "rchar:") counters.asked_bytes = value, ++found;
    if (name == "read_bytes:") counters.storage_bytes = value, ++found;
  }
  return found == 2 ? std::optional(counters) : std::nullopt;
}

}  // namespace d5
