// SPDX-License-Identifier: Apache-2.0
// Decoders: how one picture is packed. One file each; a class with static members
//   about                                 one line
//   recognises(bytes)                     by the first bytes
//   inspect(bytes)                        height, width, channels as stored
//   scales                                whether it can decode to fewer eighths of the size
//   decode(bytes, request, to)            pixels, u8
//   encode(tensor u8[CxHxW], quality)     the inverse; quality 1 to 100 where it loses anything
// then one line: D5_REGISTER(decoders, "jpeg", Jpeg);   Broken bytes are a SampleError. Any thread may call.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "d5/core/registry.hpp"
#include "d5/datasets/dataset.hpp"

namespace d5 {

using Encoded = std::span<const uint8_t>;

struct ImageInfo {
  Index height = 0, width = 0, channels = 0;
};
struct Region {
  Index top = 0, left = 0, height = 0, width = 0;
};
struct DecodeRequest {
  Index channels = 3;          // 3: red, green, blue; 1: brightness
  bool planes = true;          // CHW; false: HWC
  int eighths = 8;             // of the stored size, rounded up: 8 is all of it
  std::optional<Region> crop;  // of the picture after scaling; must lie inside
};

struct DecoderEntry {
  std::string about;
  bool scales = false;
  std::function<bool(Encoded)> recognises;
  std::function<ImageInfo(Encoded)> inspect;
  std::function<void(Encoded, const DecodeRequest&, uint8_t* to)> decode;
  std::function<std::vector<uint8_t>(const Tensor&, int quality)> encode;
};
struct decoders {
  static constexpr const char* kind = "decoder";
  using Entry = DecoderEntry;
  template <class T>
  static Entry entry() {
    return {T::about, T::scales, T::recognises, T::inspect, T::decode, T::encode};
  }
};

// A picture of more pixels is refused: its header may lie, and memory is bounded.
inline constexpr Index most_pixels = Index{1} << 26;

const DecoderEntry& decoder_of(Encoded);  // SampleError where no decoder recognises it
ImageInfo scaled(ImageInfo, int eighths);

// How pictures of many sizes become what a network takes.
struct DecodeOptions {
  Index channels = 3;
  bool planes = true;
  Index height = 0, width = 0;  // 0: as stored; sizes then differ from sample to sample
  // Centre crop of that size, the missing rim black: the pixels are those stored. Or true: the shorter side is scaled
  // to fit, in the decoder first (eighths) and then bilinearly, and the centre is kept.
  bool resize = false;
};
// Straight into `to`, u8[3xHxW] or u8[HxWx3]; the size is that of the options, else the picture's.
void decode_image(Encoded, const DecodeOptions&, uint8_t* to);
ImageInfo decoded_size(Encoded, const DecodeOptions&);

// The set with its field "image" decoded; that field holds encoded bytes, u8 of any length. Itself where it has none.
std::shared_ptr<const Dataset> decoded(std::shared_ptr<const Dataset>, const DecodeOptions&);
bool holds_encoded(const Dataset&);

// For decoders: a line of interleaved pixels (rgbrgb...) becomes a line of each of three planes.
void split_planes(const uint8_t* rgb, Index pixels, uint8_t* red, uint8_t* green, uint8_t* blue);

}  // namespace d5
