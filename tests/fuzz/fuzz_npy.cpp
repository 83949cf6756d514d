// SPDX-License-Identifier: Apache-2.0
// NumPy arrays and zips of them.
#include "container_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  d5::read_everything("npy", data, size, {});
  d5::read_everything("npz", data, size, {});
  return 0;
}
