// SPDX-License-Identifier: Apache-2.0
// HDF5, by its library, after a trial in a process of its own: rows of arrays, or windows of a signal. A process for
// every input makes this one slow.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "container_input.hpp"

namespace {

// The library opens nothing that has no name.
struct NamedFile {
  std::string path = std::filesystem::temp_directory_path() / "d5-fuzz-hdf5-XXXXXX";
  NamedFile() { close(mkstemp(path.data())); }
  ~NamedFile() { std::filesystem::remove(path); }
};

}  // namespace

extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }  // on its way out of damaged files

extern "C" const char* __asan_default_options() { return "quarantine_size_mb=4"; }  // a process is copied faster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const NamedFile file;
  std::ofstream(file.path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<long>(size));
  d5::read_everything("hdf5", file.path, {{"window", static_cast<int64_t>(size % 2)}});
  return 0;
}
