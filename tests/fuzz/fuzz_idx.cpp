// SPDX-License-Identifier: Apache-2.0
// IDX files, packed or not.
#include "container_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  d5::read_everything("idx", data, size, {{"labels", "none"}});
  return 0;
}
