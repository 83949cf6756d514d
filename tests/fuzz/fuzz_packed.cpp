// SPDX-License-Identifier: Apache-2.0
// Files that are packed whole (gz, xz), and the tar archives in them.
#include "container_input.hpp"
#include "d5/datasets/byte_source.hpp"
#include "d5/datasets/unpack.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const d5::MemoryFile file(data, size);
  try {
    const auto contents = d5::whole_contents(file.path(), 1 << 20);
    d5::TarWalk walk("fuzz", [&](uint64_t offset, void* to, size_t bytes) {
      if (!contents->holds(offset, bytes)) return false;
      contents->copy(offset, bytes, to);
      return true;
    });
    for (d5::TarMember member; walk.next(member);) {
    }
  } catch (const d5::Error&) {  // a reason in words is a right answer
  }
  return 0;
}
