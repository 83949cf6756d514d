// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg-turbo: whole, to 1/8 ... 7/8 of the size inside the inverse transform, and crops of which only the
// blocks that hold them are transformed. Accurate integer transform and smooth upsampling, as most programs have it.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// its headers want <cstdio> first, and jerror.h last
#include <jpeglib.h>

#include <jerror.h>

#include "d5/datasets/decoder.hpp"

namespace d5 {
namespace {

constexpr int most_scans = 500;  // of a progressive picture: a hostile one has thousands of nothing

// libjpeg leaves by longjmp; nothing with a destructor lives between setjmp and the calls into it.
struct Failure {
  jpeg_error_mgr base;
  std::jmp_buf back;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->message.data());
  std::longjmp(failure->back, 1);
}

// Where data is missing or wrong, libjpeg warns and paints grey: here that is an error. Other warnings are harmless.
void judge(j_common_ptr info, int level) {
  constexpr std::array fatal{JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_JPEG_EOF, JWRN_MUST_RESYNC,
                             JWRN_BOGUS_PROGRESSION};
  if (level < 0 && std::ranges::find(fatal, info->err->msg_code) != fatal.end()) leave(info);
}

void count_scans(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  if (info->is_decompressor && reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > most_scans) {
    std::snprintf(failure->message.data(), failure->message.size(), "more than %d scans", most_scans);
    std::longjmp(failure->back, 1);
  }
}

void install(jpeg_error_mgr*& err, Failure& failure) {
  err = jpeg_std_error(&failure.base);
  failure.base.error_exit = leave;
  failure.base.emit_message = judge;
  failure.base.output_message = [](j_common_ptr) {};
  failure.message[0] = 0;
}

struct Decompressor {
  jpeg_decompress_struct info{};
  jpeg_progress_mgr progress{};
  Failure failure{};
  Decompressor() {
    install(info.err, failure);
    jpeg_create_decompress(&info);
    progress.progress_monitor = count_scans;
    info.progress = &progress;
  }
  ~Decompressor() { jpeg_destroy_decompress(&info); }
};

void begin(jpeg_decompress_struct& info, Encoded bytes) {
  jpeg_mem_src(&info, bytes.data(), bytes.size());
  jpeg_read_header(&info, TRUE);
}

// One for each thread, used again and again: making one costs as much as a small picture.
Decompressor& decompressor() {
  thread_local Decompressor one;
  return one;
}

[[noreturn]] void fail(Decompressor& one, Encoded bytes) {
  jpeg_abort_decompress(&one.info);
  throw SampleError("[jpeg] broken picture of {} bytes: {}", bytes.size(), one.failure.message.data());
}

// After begin().
ImageInfo size_of(Decompressor& one) {
  const ImageInfo info{one.info.image_height, one.info.image_width, one.info.num_components == 1 ? 1 : 3};
  if (info.height * info.width <= most_pixels) return info;
  jpeg_abort_decompress(&one.info);
  throw SampleError("[jpeg] {} x {} pixels, more than {} are refused", info.height, info.width, most_pixels);
}

void check_crop(Decompressor& one, const ImageInfo& size, const Region& crop) {
  if (crop.top >= 0 && crop.left >= 0 && crop.height >= 1 && crop.width >= 1 && crop.top + crop.height <= size.height &&
      crop.left + crop.width <= size.width)
    return;
  jpeg_abort_decompress(&one.info);
  throw Error("[jpeg] the crop {} x {} at {}, {} is not in {} x {}", crop.height, crop.width, crop.top, crop.left,
              size.height, size.width);
}

// Black ink and three colours, inverted as Adobe's programs write them.
void from_inks(uint8_t* line, Index pixels, bool grey) {
  for (Index i = 0; i < pixels; ++i) {
    const uint8_t* ink = line + 4 * i;
    const unsigned black = ink[3];
    const auto part = [black](unsigned colour) { return static_cast<uint8_t>((colour * black + 127) / 255); };
    const uint8_t red = part(ink[0]), green = part(ink[1]), blue = part(ink[2]);
    if (grey) {
      line[i] = static_cast<uint8_t>((red * 299 + green * 587 + blue * 114 + 500) / 1000);
    } else {
      line[3 * i] = red;
      line[3 * i + 1] = green;
      line[3 * i + 2] = blue;
    }
  }
}

// Lines of the crop, one after the other. `line` has room for a whole line of four channels.
void read_lines(jpeg_decompress_struct& info, const DecodeRequest& request, uint8_t* line, uint8_t* to) {
  const bool inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = inks ? JCS_CMYK : request.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  info.scale_num = static_cast<unsigned>(request.eighths);
  info.scale_denom = 8;
  info.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&info);
  const Region whole{0, 0, info.output_height, info.output_width};
  const Region crop = request.crop.value_or(whole);
  // Whole blocks only, and one more on each side so that upsampled colours have their neighbours.
  Index skipped = 0;
  if (crop.width < whole.width) {
    const Index rim = 32, left = std::max<Index>(crop.left - rim, 0);
    JDIMENSION first = static_cast<JDIMENSION>(left),
               count = static_cast<JDIMENSION>(std::min(crop.left + crop.width + rim, whole.width) - left);
    jpeg_crop_scanline(&info, &first, &count);
    skipped = crop.left - static_cast<Index>(first);
  }
  if (crop.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(crop.top));
  const bool straight = !request.planes && !inks && skipped == 0 && info.output_width == crop.width;
  const Index channels = request.channels, plane = crop.height * crop.width;
  for (Index y = 0; y < crop.height; ++y) {
    uint8_t* const row = straight ? to + y * crop.width * channels : line;
    JSAMPROW rows[1] = {row};
    while (jpeg_read_scanlines(&info, rows, 1) == 0) {
    }
    if (straight) continue;
    if (inks) from_inks(line, info.output_width, channels == 1);
    const uint8_t* const from = line + skipped * channels;
    if (channels == 3 && request.planes)
      split_planes(from, crop.width, to + y * crop.width, to + plane + y * crop.width, to + 2 * plane + y * crop.width);
    else
      std::memcpy(to + y * crop.width * channels, from, static_cast<size_t>(crop.width * channels));
  }
  if (info.output_scanline < info.output_height)
    jpeg_abort_decompress(&info);
  else
    jpeg_finish_decompress(&info);
}

struct Jpeg {
  static constexpr const char* about = "JPEG by libjpeg-turbo: whole, scaled by eighths, or a crop";
  static constexpr bool scales = true;
  static bool recognises(Encoded bytes) {
    return bytes.size() > 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
  }

  static ImageInfo inspect(Encoded bytes) {
    Decompressor& one = decompressor();
    if (setjmp(one.failure.back)) fail(one, bytes);
    begin(one.info, bytes);
    const ImageInfo info = size_of(one);
    jpeg_abort_decompress(&one.info);
    return info;
  }

  static void decode(Encoded bytes, const DecodeRequest& request, uint8_t* to) {
    if (request.eighths < 1 || request.eighths > 8) throw Error("[jpeg] {} eighths; legal: 1 to 8", request.eighths);
    thread_local std::vector<uint8_t> line;
    Decompressor& one = decompressor();
    if (setjmp(one.failure.back)) fail(one, bytes);
    begin(one.info, bytes);
    const ImageInfo size = scaled(size_of(one), request.eighths);
    if (request.crop) check_crop(one, size, *request.crop);
    line.resize(static_cast<size_t>(4 * (size.width + 64)));
    read_lines(one.info, request, line.data(), to);
  }

  static std::vector<uint8_t> encode(const Tensor& image, int quality) {
    const Shape& shape = image.shape();
    if (image.dtype() != DType::u8 || shape.rank() != 3 || (shape[0] != 1 && shape[0] != 3) || image.elements() == 0 ||
        shape[1] > JPEG_MAX_DIMENSION || shape[2] > JPEG_MAX_DIMENSION)
      throw UsageError("[jpeg] holds u8[1xHxW] and u8[3xHxW] up to {} pixels a side, not {}[{}]", JPEG_MAX_DIMENSION,
                       name(image.dtype()), to_string(shape));
    const Index channels = shape[0], height = shape[1], width = shape[2];
    const uint8_t* const from = image.values<uint8_t>().data();
    std::vector<uint8_t> line(static_cast<size_t>(channels * width));
    jpeg_compress_struct info{};
    Failure failure{};
    unsigned char* packed = nullptr;
    unsigned long bytes = 0;
    install(info.err, failure);
    jpeg_create_compress(&info);
    if (setjmp(failure.back)) {
      jpeg_destroy_compress(&info);
      std::free(packed);
      throw Error("[jpeg] cannot encode: {}", failure.message.data());
    }
    jpeg_mem_dest(&info, &packed, &bytes);
    info.image_height = static_cast<JDIMENSION>(height);
    info.image_width = static_cast<JDIMENSION>(width);
    info.input_components = static_cast<int>(channels);
    info.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, quality, TRUE);
    jpeg_start_compress(&info, TRUE);
    for (Index y = 0; y < height; ++y) {
      for (Index x = 0; x < width; ++x)
        for (Index c = 0; c < channels; ++c)
          line[static_cast<size_t>(x * channels + c)] = from[(c * height + y) * width + x];
      JSAMPROW rows[1] = {line.data()};
      jpeg_write_scanlines(&info, rows, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    std::vector<uint8_t> result(packed, packed + bytes);
    std::free(packed);
    return result;
  }
};

}  // namespace

D5_REGISTER(decoders, "jpeg", Jpeg);

}  // namespace d5
