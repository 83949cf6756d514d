// SPDX-License-Identifier: Apache-2.0
// Pictures: whole, cropped, resized. Large ones are left out, they only take time.
#include <vector>

#include "d5/core/error.hpp"
#include "d5/datasets/decoder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const d5::Encoded bytes(data, size);
  try {
    const d5::DecoderEntry& decoder = d5::decoder_of(bytes);
    const d5::ImageInfo info = decoder.inspect(bytes);
    if (info.height * info.width > 1 << 16) return 0;
    std::vector<uint8_t> pixels(static_cast<size_t>(3 * std::max<d5::Index>(info.height * info.width, 40 * 30)));
    decoder.decode(bytes, {}, pixels.data());
    d5::decode_image(bytes, {.planes = false, .height = 40, .width = 30}, pixels.data());
    d5::decode_image(bytes, {.channels = 1, .height = 40, .width = 30, .resize = true}, pixels.data());
  } catch (const d5::Error&) {  // a reason in words is a right answer
  }
  return 0;
}
