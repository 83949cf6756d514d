// SPDX-License-Identifier: Apache-2.0
// Tar archives with WebDataset names, arrays inside.
#include "container_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  d5::read_everything("tar", data, size, {{"index", false}});
  return 0;
}
