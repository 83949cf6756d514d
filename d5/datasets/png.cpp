// SPDX-License-Identifier: Apache-2.0
// PNG by libpng: any depth and colour type becomes 8 bits of brightness or of red, green, blue; transparency is
// dropped.
#include <png.h>

#include <algorithm>
#include <cstring>

#include "d5/datasets/decoder.hpp"

namespace d5 {
namespace {

struct Source {
  const uint8_t* at;
  size_t left;
};

struct Failure {
  char message[128];
};

[[noreturn]] void leave(png_structp png, png_const_charp message) {
  auto* failure = static_cast<Failure*>(png_get_error_ptr(png));
  std::strncpy(failure->message, message, sizeof failure->message - 1);
  png_longjmp(png, 1);
}

void take(png_structp png, png_bytep to, size_t bytes) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (bytes > source->left) png_error(png, "cut short");
  std::memcpy(to, source->at, bytes);
  source->at += bytes;
  source->left -= bytes;
}

struct Reader {
  Failure failure{};
  Source source;
  png_structp png;
  png_infop info;
  explicit Reader(Encoded bytes)
      : source{bytes.data(), bytes.size()},
        png(png_create_read_struct(PNG_LIBPNG_VER_STRING, &failure, leave, [](png_structp, png_const_charp) {})),
        info(png_create_info_struct(png)) {
    png_set_read_fn(png, &source, take);
    png_set_user_limits(png, 1 << 20, 1 << 20);
    png_set_chunk_malloc_max(png, 8 << 20);
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  [[noreturn]] void fail(Encoded bytes) const {
    throw SampleError("[png] broken picture of {} bytes: {}", bytes.size(), failure.message);
  }
};

// After it rows are `channels` bytes a pixel.
void convert_rows(Reader& reader, Index channels) {
  png_structp png = reader.png;
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  const bool grey = !(png_get_color_type(png, reader.info) & PNG_COLOR_MASK_COLOR);
  if (grey && channels == 3) png_set_gray_to_rgb(png);
  if (!grey && channels == 1) png_set_rgb_to_gray_fixed(png, PNG_ERROR_ACTION_NONE, 29900, 58700);
  png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
}

void put_crop(const uint8_t* pixels, const ImageInfo& size, const Region& crop, Index channels, bool planes,
              uint8_t* to) {
  const Index plane = crop.height * crop.width;
  for (Index y = 0; y < crop.height; ++y) {
    const uint8_t* const from = pixels + ((crop.top + y) * size.width + crop.left) * channels;
    if (channels == 3 && planes)
      split_planes(from, crop.width, to + y * crop.width, to + plane + y * crop.width, to + 2 * plane + y * crop.width);
    else
      std::memcpy(to + y * crop.width * channels, from, static_cast<size_t>(crop.width * channels));
  }
}

void append(png_structp png, png_bytep data, size_t bytes) {
  auto* out = static_cast<std::vector<uint8_t>*>(png_get_io_ptr(png));
  out->insert(out->end(), data, data + bytes);
}

struct Png {
  static constexpr const char* about = "PNG by libpng, any depth and colour type";
  static constexpr bool scales = false;
  static bool recognises(Encoded bytes) { return bytes.size() >= 8 && png_sig_cmp(bytes.data(), 0, 8) == 0; }

  static ImageInfo inspect(Encoded bytes) {
    Reader reader(bytes);
    if (setjmp(png_jmpbuf(reader.png))) reader.fail(bytes);
    png_read_info(reader.png, reader.info);
    const ImageInfo size{png_get_image_height(reader.png, reader.info), png_get_image_width(reader.png, reader.info),
                         png_get_color_type(reader.png, reader.info) & PNG_COLOR_MASK_COLOR ? 3 : 1};
    if (size.height * size.width > most_pixels)
      throw SampleError("[png] {} x {} pixels, more than {} are refused", size.height, size.width, most_pixels);
    return size;
  }

  static void decode(Encoded bytes, const DecodeRequest& request, uint8_t* to) {
    if (request.eighths != 8) throw Error("[png] cannot be scaled while it is decoded");
    const ImageInfo size = inspect(bytes);
    const Region crop = request.crop.value_or(Region{0, 0, size.height, size.width});
    if (crop.top < 0 || crop.left < 0 || crop.height < 1 || crop.width < 1 || crop.top + crop.height > size.height ||
        crop.left + crop.width > size.width)
      throw Error("[png] the crop {} x {} at {}, {} is not in {} x {}", crop.height, crop.width, crop.top, crop.left,
                  size.height, size.width);
    // The whole picture: lines may be interlaced. Only as many bytes as lines can hold are taken on the header's word.
    thread_local std::vector<uint8_t> pixels;
    thread_local std::vector<png_bytep> rows;
    const auto row = static_cast<size_t>(size.width * request.channels);
    pixels.resize(row * static_cast<size_t>(size.height));
    rows.resize(static_cast<size_t>(size.height));
    for (size_t y = 0; y < rows.size(); ++y) rows[y] = pixels.data() + y * row;
    Reader reader(bytes);
    if (setjmp(png_jmpbuf(reader.png))) reader.fail(bytes);
    png_read_info(reader.png, reader.info);
    convert_rows(reader, request.channels);
    if (png_get_rowbytes(reader.png, reader.info) != row) png_error(reader.png, "an unknown kind of pixels");
    png_read_image(reader.png, rows.data());
    png_read_end(reader.png, nullptr);
    put_crop(pixels.data(), size, crop, request.channels, request.planes, to);
  }

  static std::vector<uint8_t> encode(const Tensor& image, int) {
    const Shape& shape = image.shape();
    if (image.dtype() != DType::u8 || shape.rank() != 3 || (shape[0] != 1 && shape[0] != 3) || image.elements() == 0)
      throw UsageError("[png] holds u8[1xHxW] and u8[3xHxW], not {}[{}]", name(image.dtype()), to_string(shape));
    const Index channels = shape[0], height = shape[1], width = shape[2];
    const uint8_t* const from = image.values<uint8_t>().data();
    std::vector<uint8_t> line(static_cast<size_t>(channels * width)), result;
    Failure failure{};
    png_structp png =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, &failure, leave, [](png_structp, png_const_charp) {});
    png_infop info = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png))) {
      png_destroy_write_struct(&png, &info);
      throw Error("[png] cannot encode: {}", failure.message);
    }
    png_set_write_fn(png, &result, append, nullptr);
    png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), 8,
                 channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (Index y = 0; y < height; ++y) {
      for (Index x = 0; x < width; ++x)
        for (Index c = 0; c < channels; ++c)
          line[static_cast<size_t>(x * channels + c)] = from[(c * height + y) * width + x];
      png_write_row(png, line.data());
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return result;
  }
};

}  // namespace

D5_REGISTER(decoders, "png", Png);

}  // namespace d5
