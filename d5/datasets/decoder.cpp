// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/decoder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "d5/datasets/container.hpp"
#include "d5/datasets/file_bytes.hpp"
#include "d5/datasets/parts.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace d5 {
namespace {

void split_plainly(const uint8_t* rgb, Index pixels, uint8_t* red, uint8_t* green, uint8_t* blue) {
  for (Index i = 0; i < pixels; ++i) {
    red[i] = rgb[3 * i];
    green[i] = rgb[3 * i + 1];
    blue[i] = rgb[3 * i + 2];
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) __m256i load(const std::array<uint8_t, 32>& mask) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(mask.data()));
}
__attribute__((target("avx2"))) __m256i both_halves(const uint8_t* from) {
  return _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(from + 48), reinterpret_cast<const __m128i*>(from));
}

// 32 pixels are three registers, whose halves hold 16 pixels each. Byte j of one of the three, and of no other, belongs
// to a plane: two selections gather them, a shuffle puts them in order.
__attribute__((target("avx2"))) void split_vectors(const uint8_t* rgb, Index pixels, uint8_t* red, uint8_t* green,
                                                   uint8_t* blue) {
  struct Masks {
    std::array<std::array<uint8_t, 32>, 3> third{},
        order{};  // every third byte from 0, 1, 2; where pixel i of a plane is
  };
  alignas(32) static constexpr Masks masks = [] {
    Masks all;
    for (size_t k = 0; k < 3; ++k)
      for (size_t i = 0; i < 32; ++i) {
        all.third[k][i] = i % 16 % 3 == k ? 0xff : 0;
        all.order[k][i] = static_cast<uint8_t>((3 * (i % 16) + k) % 16);
      }
    return all;
  }();
  uint8_t* const planes[3] = {red, green, blue};
  Index i = 0;
  for (; i + 32 <= pixels; i += 32) {
    const uint8_t* const from = rgb + 3 * i;
    const __m256i a = both_halves(from), b = both_halves(from + 16), c = both_halves(from + 32);
    for (size_t plane = 0; plane < 3; ++plane) {
      const __m256i found = _mm256_blendv_epi8(_mm256_blendv_epi8(a, b, load(masks.third[(plane + 2) % 3])), c,
                                               load(masks.third[(plane + 1) % 3]));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(planes[plane] + i),
                          _mm256_shuffle_epi8(found, load(masks.order[plane])));
    }
  }
  split_plainly(rgb + 3 * i, pixels - i, red + i, green + i, blue + i);
}
#endif

// Between which two of `size` pixels, and how near to the second in 2048ths, each of `count` lies; the centres of
// pixels are at half-integers.
struct Between {
  Index first, second;
  int32_t weight;
};
void places(Index size, Index count, std::vector<Between>& to) {
  to.resize(static_cast<size_t>(count));
  const double step = static_cast<double>(size) / static_cast<double>(count);
  for (Index i = 0; i < count; ++i) {
    const double at = std::clamp((static_cast<double>(i) + 0.5) * step - 0.5, 0.0, static_cast<double>(size - 1));
    const auto first = static_cast<Index>(at);
    to[static_cast<size_t>(i)] = {first, std::min(first + 1, size - 1),
                                  static_cast<int32_t>(std::lround((at - static_cast<double>(first)) * 2048))};
  }
}

// Bilinear, of bytes that lie `step` apart in a row.
void resize_plane(const uint8_t* from, Index height, Index width, Index from_step, uint8_t* to, Index new_height,
                  Index new_width, Index to_step) {
  thread_local std::vector<Between> down, across;
  places(height, new_height, down);
  places(width, new_width, across);
  for (Index y = 0; y < new_height; ++y) {
    const Between& row = down[static_cast<size_t>(y)];
    const uint8_t* const upper = from + row.first * width * from_step;
    const uint8_t* const lower = from + row.second * width * from_step;
    uint8_t* pixel = to + y * new_width * to_step;
    for (const Between& column : across) {
      const Index left = column.first * from_step, right = column.second * from_step;
      const int32_t above = upper[left] * (2048 - column.weight) + upper[right] * column.weight;
      const int32_t below = lower[left] * (2048 - column.weight) + lower[right] * column.weight;
      *pixel =
          static_cast<uint8_t>((int64_t{above} * (2048 - row.weight) + int64_t{below} * row.weight + (1 << 21)) >> 22);
      pixel += to_step;
    }
  }
}

void decode_cropped(const DecoderEntry& decoder, Encoded bytes, const ImageInfo& info, const DecodeOptions& options,
                    uint8_t* to) {
  DecodeRequest request{options.channels, options.planes, 8, {}};
  const Index height = std::min(info.height, options.height), width = std::min(info.width, options.width);
  request.crop = Region{(info.height - height) / 2, (info.width - width) / 2, height, width};
  if (height == options.height && width == options.width) return decoder.decode(bytes, request, to);
  // A picture that is too small lies in the middle of a black one.
  std::vector<uint8_t> small(static_cast<size_t>(height * width * options.channels));
  decoder.decode(bytes, request, small.data());
  std::memset(to, 0, static_cast<size_t>(options.height * options.width * options.channels));
  const Index top = (options.height - height) / 2, left = (options.width - width) / 2;
  const Index planes = options.planes ? options.channels : 1, each = options.planes ? 1 : options.channels;
  for (Index plane = 0; plane < planes; ++plane)
    for (Index y = 0; y < height; ++y)
      std::memcpy(to + ((plane * options.height + top + y) * options.width + left) * each,
                  small.data() + (plane * height + y) * width * each, static_cast<size_t>(width * each));
}

void decode_resized(const DecoderEntry& decoder, Encoded bytes, const ImageInfo& info, const DecodeOptions& options,
                    uint8_t* to) {
  DecodeRequest request{options.channels, options.planes, 8, {}};
  // The fewest eighths that still have as many pixels as are wanted.
  ImageInfo at = info;
  if (decoder.scales)
    for (int eighths = 1; eighths <= 8; ++eighths) {
      at = scaled(info, eighths);
      request.eighths = eighths;
      if (at.height >= options.height && at.width >= options.width) break;
    }
  const double ratio = std::min(static_cast<double>(at.height) / static_cast<double>(options.height),
                                static_cast<double>(at.width) / static_cast<double>(options.width));
  const auto part = [&](Index wanted, Index most) {
    return std::clamp<Index>(std::llround(static_cast<double>(wanted) * ratio), 1, most);
  };
  const Index height = part(options.height, at.height), width = part(options.width, at.width);
  request.crop = Region{(at.height - height) / 2, (at.width - width) / 2, height, width};
  if (height == options.height && width == options.width) return decoder.decode(bytes, request, to);
  thread_local std::vector<uint8_t> whole;
  whole.resize(static_cast<size_t>(height * width * options.channels));
  decoder.decode(bytes, request, whole.data());
  for (Index channel = 0; channel < options.channels; ++channel) {
    if (options.planes)
      resize_plane(whole.data() + channel * height * width, height, width, 1,
                   to + channel * options.height * options.width, options.height, options.width, 1);
    else
      resize_plane(whole.data() + channel, height, width, options.channels, to + channel, options.height, options.width,
                   options.channels);
  }
}

class Decoded : public Dataset {
 public:
  Decoded(std::shared_ptr<const Dataset> encoded, size_t image, const DecodeOptions& options)
      : encoded_(std::move(encoded)), image_(image), options_(options), fields_(encoded_->fields()) {
    fields_[image].shape.reset();
    if (options.height > 0) fields_[image].shape = shape_of({options.height, options.width, options.channels});
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return encoded_->size(); }
  std::string where(Index i) const override { return encoded_->where(i); }
  std::vector<std::string> files() const override { return encoded_->files(); }
  void verify() const override { encoded_->verify(); }
  void expect(Index i) const override { encoded_->expect(i); }
  void read(Index i, Sample& into) const override {
    Tensor image = std::exchange(into.at(image_), Tensor());
    encoded_->read(i, into);
    const Tensor bytes = std::exchange(into[image_], image);
    const Encoded encoded = bytes.values<uint8_t>();
    try {
      const ImageInfo size = decoded_size(encoded, options_);
      decode_image(encoded, options_, target(into, image_, DType::u8, shape_of(size)).values<uint8_t>().data());
      require_there(encoded.data(), encoded.size());
    } catch (const SampleError& error) {
      throw SampleError(fmt::format("{}: {}", where(i), error.what()));
    }
  }

 private:
  Shape shape_of(const ImageInfo& size) const {
    if (options_.planes) return Shape{options_.channels, size.height, size.width};
    return Shape{size.height, size.width, options_.channels};
  }
  std::shared_ptr<const Dataset> encoded_;
  size_t image_;
  DecodeOptions options_;
  std::vector<Field> fields_;
};

std::optional<size_t> encoded_field(const Dataset& dataset) {
  const std::vector<Field>& fields = dataset.fields();
  for (size_t f = 0; f < fields.size(); ++f)
    if (fields[f].name == "image" && fields[f].dtype == DType::u8 && !fields[f].shape) return f;
  return {};
}

}  // namespace

const DecoderEntry& decoder_of(Encoded bytes) {
  thread_local const DecoderEntry* last = nullptr;  // pictures of a set are mostly of one kind
  if (last && last->recognises(bytes)) return *last;
  for (const std::string& name : registry_names(decoders::kind))
    if (const DecoderEntry& entry = registered<decoders>(name); entry.recognises(bytes)) return *(last = &entry);
  std::string off;
  for (const PartStatus& part : all_of_kind(decoders::kind))
    if (!part.available) off += fmt::format("; {} is off: {}", part.name, part.reason);
  throw SampleError(fmt::format("[decode] {} bytes that no decoder recognises{}", bytes.size(), off));
}

ImageInfo scaled(ImageInfo info, int eighths) {
  return {(info.height * eighths + 7) / 8, (info.width * eighths + 7) / 8, info.channels};
}

ImageInfo decoded_size(Encoded bytes, const DecodeOptions& options) {
  if (options.height > 0) return {options.height, options.width, options.channels};
  const ImageInfo info = decoder_of(bytes).inspect(bytes);
  return {info.height, info.width, options.channels};
}

void decode_image(Encoded bytes, const DecodeOptions& options, uint8_t* to) {
  const DecoderEntry& decoder = decoder_of(bytes);
  if (options.height == 0) return decoder.decode(bytes, {options.channels, options.planes, 8, {}}, to);
  const ImageInfo info = decoder.inspect(bytes);
  options.resize ? decode_resized(decoder, bytes, info, options, to)
                 : decode_cropped(decoder, bytes, info, options, to);
}

bool holds_encoded(const Dataset& dataset) { return encoded_field(dataset).has_value(); }

std::shared_ptr<const Dataset> decoded(std::shared_ptr<const Dataset> dataset, const DecodeOptions& options) {
  const auto image = encoded_field(*dataset);
  if (!image) return dataset;
  if ((options.channels != 1 && options.channels != 3) || options.height < 0 || options.width < 0 ||
      (options.height == 0) != (options.width == 0))
    throw UsageError("[decode] {} channels of {} x {}; legal: 1 or 3 channels, a size or none", options.channels,
                     options.height, options.width);
  return std::make_shared<Decoded>(std::move(dataset), *image, options);
}

void split_planes(const uint8_t* rgb, Index pixels, uint8_t* red, uint8_t* green, uint8_t* blue) {
#if defined(__x86_64__)
  static const bool vectors = __builtin_cpu_supports("avx2");
  if (vectors) return split_vectors(rgb, pixels, red, green, blue);
#endif
  split_plainly(rgb, pixels, red, green, blue);
}

}  // namespace d5
