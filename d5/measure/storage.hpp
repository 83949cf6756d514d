// SPDX-License-Identifier: Apache-2.0
// What the storage behind a path gives, and its pages in the kernel's cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace d5 {

// The files of a path: itself, or everything below a folder. Empty where there is nothing.
std::vector<std::string> files_of(const std::string& path);
int64_t bytes_of(const std::vector<std::string>& files);

// The part of their bytes that lies in the page cache, 0 to 1.
double cached_share(const std::vector<std::string>& files);
void empty_page_cache(const std::vector<std::string>& files);  // asks the kernel; cached_share() tells what came of it
// Where this process has mapped them: its pages are let go, which keep the kernel from emptying its cache. Part of
// empty_page_cache(); other processes that have them mapped must do it, too. The mappings stay as they are.
void release_mapped_pages(const std::vector<std::string>& files);
void fill_page_cache(const std::vector<std::string>& files);

// Bytes a second of plain reading, for at most `seconds`: whole files one after the other in large blocks, or all
// blocks of `block` bytes in random order, each once; files that are smaller than that on average are read whole.
// Through the page cache: hot and cold is what the caller made it. 0 where there are no bytes. `threads` readers at
// once, each with a share of its own.
double sequential_read_rate(const std::vector<std::string>& files, int threads, double seconds);
double random_read_rate(const std::vector<std::string>& files, int64_t block, int threads, double seconds,
                        uint64_t seed);
// The same for pages that are cached already: blocks are copied out of the mapped file, without a call of the kernel.
// The largest file stands for all; in order, or at random places.
double mapped_read_rate(const std::vector<std::string>& files, int64_t block, bool in_order, int threads,
                        double seconds, uint64_t seed);

// What a folder gives for writing; files are made in it under a name of their own and removed.
struct SmallFileRates {
  double created = 0, looked_up = 0, read = 0, removed = 0;  // files a second; created: written and closed
};
SmallFileRates small_file_rates(const std::string& folder, int files, int64_t bytes);
// A checkpoint: so many bytes in large blocks, forced to storage (fsync), renamed. Bytes a second.
double checkpoint_write_rate(const std::string& folder, int64_t bytes);
// Staging: these files copied into the folder and forced to storage. Bytes a second; 0 where there are no bytes.
double staging_rate(const std::vector<std::string>& files, const std::string& folder);

// Of this process so far: what it asked the kernel to read, and what had to come from storage.
struct ReadCounters {
  double asked_bytes = 0, storage_bytes = 0;
};
std::optional<ReadCounters> read_counters();  // empty where the kernel does not tell

}  // namespace d5
