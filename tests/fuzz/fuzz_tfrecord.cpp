// SPDX-License-Identifier: Apache-2.0
// TFRecord with tf.train.Example; sums of records are not checked, so that damage reaches the messages.
#include "container_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  d5::read_everything("tfrecord", data, size, {{"index", false}, {"check", false}});
  d5::read_everything("tfrecord", data, size, {{"index", false}, {"format", "raw"}});
  return 0;
}
