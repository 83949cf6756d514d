// SPDX-License-Identifier: Apache-2.0
// JPEG by libjpeg-turbo: whole, to 1/8 ... 7/8 of the size inside the inverse transform, and crops of which only the
// blocks that hold them are transformed. Accurate integer transform and smooth upsampling, as most programs have it.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

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
  }
  ~Decompressor() { jpeg_destroy_decompress(&info); }
};

void begin(Decompressor& one, Encoded bytes) {
  one.info.progress = nullptr;
  jpeg_mem_src(&one.info, bytes.data(), bytes.size());
  jpeg_read_header(&one.info, TRUE);
  if (jpeg_has_multiple_scans(&one.info)) one.info.progress = &one.progress;
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

void refuse_large(const ImageInfo& info) {
  if (info.height * info.width > most_pixels)
    throw SampleError("[jpeg] {} x {} pixels, more than {} are refused", info.height, info.width, most_pixels);
}

// After begin().
ImageInfo size_of(Decompressor& one) {
  const ImageInfo info{one.info.image_height, one.info.image_width, one.info.num_components == 1 ? 1 : 3};
  if (info.height * info.width > most_pixels) jpeg_abort_decompress(&one.info);
  refuse_large(info);
  return info;
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

// libjpeg-turbo streams lines that are aligned past the caches; they are read again at once, which would then take a
// fifth of the time.
uint8_t* beside_alignment(uint8_t* lines) { return lines + 24 - reinterpret_cast<uintptr_t>(lines) % 16; }

constexpr Index lines_at_once = 4;

// Lines of the crop, some at a time. At `lines`, `stride` apart, is room for as many whole lines of four channels.
void read_lines(jpeg_decompress_struct& info, const DecodeRequest& request, uint8_t* lines, Index stride, uint8_t* to) {
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
  for (Index y = 0, last = 0; y < crop.height; y = last) {
    const Index wanted = std::min(lines_at_once, crop.height - y);
    JSAMPROW rows[lines_at_once];
    for (Index r = 0; r < wanted; ++r) rows[r] = straight ? to + (y + r) * crop.width * channels : lines + r * stride;
    last = y + jpeg_read_scanlines(&info, rows, static_cast<JDIMENSION>(wanted));
    if (straight) continue;
    for (uint8_t* line = lines; y < last; ++y, line += stride) {
      if (inks) from_inks(line, info.output_width, channels == 1);
      const uint8_t* const from = line + skipped * channels;
      uint8_t* const row = to + y * crop.width;
      if (channels == 3 && request.planes)
        split_planes(from, crop.width, row, row + plane, row + 2 * plane);
      else
        std::memcpy(to + y * crop.width * channels, from, static_cast<size_t>(crop.width * channels));
    }
  }
  if (info.output_scanline < info.output_height)
    jpeg_abort_decompress(&info);
  else
    jpeg_finish_decompress(&info);
}

// What the frame header says, found without the library, which would make all its tables on the way. Empty where the
// markers before it are not as they should be: the library then says what is wrong.
std::optional<ImageInfo> frame_size(Encoded bytes) {
  const auto two = [&](size_t at) { return Index{bytes[at]} << 8 | bytes[at + 1]; };
  for (size_t at = 2; at + 10 <= bytes.size() && bytes[at] == 0xff;) {
    const uint8_t marker = bytes[at + 1];
    const bool frame = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (frame) return ImageInfo{two(at + 5), two(at + 7), bytes[at + 9] == 1 ? 1 : 3};
    if (marker < 0xc0 || marker == 0xda || (marker >= 0xd0 && marker <= 0xd9) || marker == 0xff) return {};
    at += 2 + static_cast<size_t>(two(at + 2));
  }
  return {};
}

struct Jpeg {
  static constexpr const char* about = "JPEG by libjpeg-turbo: whole, scaled by eighths, or a crop";
  static constexpr bool scales = true;
  static bool recognises(Encoded bytes) {
    return bytes.size() > 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
  }

  static ImageInfo inspect(Encoded bytes) {
    if (const auto size = frame_size(bytes); size && size->height > 0 && size->width > 0) {
      refuse_large(*size);
      return *size;
    }
    Decompressor& one = decompressor();
    if (setjmp(one.failure.back)) fail(one, bytes);
    begin(one, bytes);
    const ImageInfo info = size_of(one);
    jpeg_abort_decompress(&one.info);
    return info;
  }

  static void decode(Encoded bytes, const DecodeRequest& request, uint8_t* to) {
    if (request.eighths < 1 || request.eighths > 8) throw Error("[jpeg] {} eighths; legal: 1 to 8", request.eighths);
    thread_local std::vector<uint8_t> lines;
    Decompressor& one = decompressor();
    if (setjmp(one.failure.back)) fail(one, bytes);
    begin(one, bytes);
    const ImageInfo size = scaled(size_of(one), request.eighths);
    if (request.crop) check_crop(one, size, *request.crop);
    const Index stride = (4 * (size.width + 64) + 15) / 16 * 16;
    lines.resize(static_cast<size_t>(lines_at_once * stride + 24));
    read_lines(one.info, request, beside_alignment(lines.data()), stride, to);
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
