// SPDX-License-Identifier: Apache-2.0
// Records of CIFAR-10 and CIFAR-100.
#include "container_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  d5::read_everything("cifar", data, size, {{"classes", int64_t{10}}});
  d5::read_everything("cifar", data, size, {{"classes", int64_t{100}}});
  return 0;
}
