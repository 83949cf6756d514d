// SPDX-License-Identifier: Apache-2.0
// The index that is kept beside a tar archive, as of an archive that did not change.
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "container_input.hpp"
#include "d5/datasets/unpack.hpp"

namespace {

// A folder with an archive of three samples.
struct Archive {
  std::string folder = std::filesystem::temp_directory_path() / "d5-fuzz-index-XXXXXX", path;
  uint64_t stamp[3];  // as the index has it: size, seconds and nanoseconds of change
  Archive() : path(std::string(mkdtemp(folder.data())) + "/x.tar") {
    std::ofstream file(path, std::ios::binary);
    for (const char* name : {"a.ppm", "a.cls", "b.ppm", "b.cls", "c.ppm", "c.cls"})
      file << d5::tar_header(name, 1) << "1" << std::string(d5::tar_padding(1), '\0');
    file << std::string(1024, '\0');
    file.close();
    struct stat status {};
    stat(path.c_str(), &status);
    stamp[0] = static_cast<uint64_t>(status.st_size);
    stamp[1] = static_cast<uint64_t>(status.st_mtim.tv_sec);
    stamp[2] = static_cast<uint64_t>(status.st_mtim.tv_nsec);
  }
  ~Archive() { std::filesystem::remove_all(folder); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Archive archive;
  std::string index(reinterpret_cast<const char*>(data), size);
  if (size >= 8 + sizeof archive.stamp) std::memcpy(index.data() + 8, archive.stamp, sizeof archive.stamp);
  std::ofstream(archive.path + ".d5index", std::ios::binary) << index;
  d5::read_everything("tar", archive.path, {});
  return 0;
}
