// SPDX-License-Identifier: Apache-2.0
// LMDB, whose pages are read without its library.
#include "container_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  d5::read_everything("lmdb", data, size, {});
  return 0;
}
