// SPDX-License-Identifier: Apache-2.0
// Text in windows and lines, packed or not.
#include "container_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  d5::read_everything("text", data, size, {{"window", int64_t{5}}});
  d5::read_everything("text", data, size, {{"unit", "lines"}});
  return 0;
}
