// SPDX-License-Identifier: Apache-2.0
// Pixels as they are, behind a few words: binary netpbm, "P5 WIDTH HEIGHT 255\n" (brightness) or "P6 ..." (red, green,
// blue).
#include <cctype>
#include <cstring>

#include "d5/datasets/decoder.hpp"

namespace d5 {
namespace {

struct Header {
  ImageInfo size;
  size_t pixels = 0;  // where they begin
};

Header parse(Encoded bytes) {
  Header header;
  size_t at = 2;
  Index numbers[3] = {0, 0, 0};
  for (Index& number : numbers) {
    while (at < bytes.size() && (std::isspace(bytes[at]) || bytes[at] == '#')) {
      if (bytes[at] == '#')
        while (at < bytes.size() && bytes[at] != '\n') ++at;
      else
        ++at;
    }
    if (at >= bytes.size() || !std::isdigit(bytes[at]))
      throw SampleError("[raw] no width, height and 255 after P5 or P6");
    for (; at < bytes.size() && std::isdigit(bytes[at]); ++at) {
      number = number * 10 + (bytes[at] - '0');
      if (number > most_pixels) throw SampleError("[raw] more than {} pixels are refused", most_pixels);
    }
  }
  header.pixels = at + 1;  // one white space
  header.size = {numbers[1], numbers[0], bytes[1] == '6' ? 3 : 1};
  if (header.size.height < 1 || header.size.width < 1 || header.size.height * header.size.width > most_pixels)
    throw SampleError("[raw] {} x {} pixels; legal: 1 to {}", header.size.height, header.size.width, most_pixels);
  if (numbers[2] != 255) throw SampleError("[raw] the largest value is {}; legal: 255", numbers[2]);
  const auto needed = static_cast<size_t>(header.size.height * header.size.width * header.size.channels);
  if (header.pixels > bytes.size() || bytes.size() - header.pixels < needed)
    throw SampleError("[raw] cut short: {} bytes of pixels are missing", needed + header.pixels - bytes.size());
  return header;
}

struct Netpbm {
  static constexpr const char* about = "pixels as they are, behind a netpbm header (P5, P6)";
  static constexpr bool scales = false;
  static bool recognises(Encoded bytes) {
    return bytes.size() > 8 && bytes[0] == 'P' && (bytes[1] == '5' || bytes[1] == '6') && std::isspace(bytes[2]);
  }
  static ImageInfo inspect(Encoded bytes) { return parse(bytes).size; }

  static void decode(Encoded bytes, const DecodeRequest& request, uint8_t* to) {
    if (request.eighths != 8) throw Error("[raw] cannot be scaled while it is decoded");
    const auto [size, begin] = parse(bytes);
    const Region crop = request.crop.value_or(Region{0, 0, size.height, size.width});
    if (crop.top < 0 || crop.left < 0 || crop.height < 1 || crop.width < 1 || crop.top + crop.height > size.height ||
        crop.left + crop.width > size.width)
      throw Error("[raw] the crop {} x {} at {}, {} is not in {} x {}", crop.height, crop.width, crop.top, crop.left,
                  size.height, size.width);
    const Index plane = crop.height * crop.width, stored = size.channels, wanted = request.channels;
    for (Index y = 0; y < crop.height; ++y) {
      const uint8_t* const from = bytes.data() + begin + ((crop.top + y) * size.width + crop.left) * stored;
      uint8_t* const row = to + y * crop.width * (request.planes ? 1 : wanted);
      if (stored == 3 && wanted == 3 && request.planes) {
        split_planes(from, crop.width, row, row + plane, row + 2 * plane);
      } else if (stored == wanted) {
        std::memcpy(row, from, static_cast<size_t>(crop.width * wanted));
      } else if (wanted == 1) {
        for (Index x = 0; x < crop.width; ++x)
          row[x] =
              static_cast<uint8_t>((from[3 * x] * 299 + from[3 * x + 1] * 587 + from[3 * x + 2] * 114 + 500) / 1000);
      } else {
        for (Index x = 0; x < crop.width; ++x)
          for (Index c = 0; c < 3; ++c) row[request.planes ? c * plane + x : 3 * x + c] = from[x];
      }
    }
  }

  static std::vector<uint8_t> encode(const Tensor& image, int) {
    const Shape& shape = image.shape();
    if (image.dtype() != DType::u8 || shape.rank() != 3 || (shape[0] != 1 && shape[0] != 3) || image.elements() == 0)
      throw UsageError("[raw] holds u8[1xHxW] and u8[3xHxW], not {}[{}]", name(image.dtype()), to_string(shape));
    const std::string head = fmt::format("P{} {} {} 255\n", shape[0] == 3 ? 6 : 5, shape[2], shape[1]);
    std::vector<uint8_t> result(head.begin(), head.end());
    const auto from = image.values<uint8_t>();
    const auto plane = static_cast<size_t>(shape[1] * shape[2]);
    for (size_t pixel = 0; pixel < plane; ++pixel)
      for (size_t c = 0; c < static_cast<size_t>(shape[0]); ++c) result.push_back(from[c * plane + pixel]);
    return result;
  }
};

}  // namespace

D5_REGISTER(decoders, "raw", Netpbm);

}  // namespace d5
