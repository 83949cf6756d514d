// SPDX-License-Identifier: Apache-2.0
// Our own raw files.
#include "container_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  d5::read_everything("raw", data, size, {});
  return 0;
}
