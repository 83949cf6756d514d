// SPDX-License-Identifier: Apache-2.0
// Pixels against Pillow's (files/make.py; MD5 of the RGB planes, sums): whole, scaled, crops.
#include "d5/datasets/decoder.hpp"

#include "d5/datasets/checksum.hpp"
#include "d5/datasets/parts.hpp"
#include "samples_in_memory.hpp"

namespace d5 {
namespace {

Encoded bytes_of(const std::string& text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

std::string planes_of(const std::string& encoded, const DecodeRequest& request, Index height, Index width) {
  std::string planes(static_cast<size_t>(request.channels * height * width), '\xee');
  decoder_of(bytes_of(encoded)).decode(bytes_of(encoded), request, reinterpret_cast<uint8_t*>(planes.data()));
  return planes;
}

bool off(const std::string& file) {
  return (file.ends_with(".jpg") && !part_status("jpeg").available) ||
         (file.ends_with(".png") && !part_status("png").available);
}

TEST(Decoders, PixelsAreThoseOfPillow) {
  const std::vector<std::pair<std::string, std::string>> files{
      {"plain.png", "414f2e61312c8f1a0ba1790df6d31a36"},  {"transparent.png", "414f2e61312c8f1a0ba1790df6d31a36"},
      {"pixels.ppm", "414f2e61312c8f1a0ba1790df6d31a36"}, {"palette.png", "72ad048e196cb2c7ad564e20c790685f"},
      {"photo.jpg", "3356d915d67b99ef64af042075ffde83"},  {"progressive.jpg", "c02484a1166bb36c83573f34336b3da9"},
      {"grey.jpg", "06362f03762cca93861fd432e5054b69"}};
  for (const auto& [file, sum] : files) {
    if (off(file)) continue;
    const std::string encoded = contents_of(test_file(file));
    const ImageInfo info = decoder_of(bytes_of(encoded)).inspect(bytes_of(encoded));
    EXPECT_EQ(info.height, 37) << file;
    EXPECT_EQ(info.width, 53) << file;
    EXPECT_EQ(md5(planes_of(encoded, {}, 37, 53)), sum) << file;
  }
}

TEST(Decoders, SixteenBitsAreRounded) {
  if (off("deep.png")) GTEST_SKIP() << part_status("png").reason;
  const std::string planes = planes_of(contents_of(test_file("deep.png")), {.channels = 1}, 37, 53);
  EXPECT_EQ(static_cast<uint8_t>(planes[36 * 53 + 52]), 140);  // (36 * 1000 + 52) * 255 / 65535 = 140.28
  EXPECT_EQ(static_cast<uint8_t>(planes[1]), 0);
}

TEST(Decoders, InksAreNearPillow) {
  if (off("inks.jpg")) GTEST_SKIP() << part_status("jpeg").reason;
  const std::string planes = planes_of(contents_of(test_file("inks.jpg")), {}, 37, 53);
  int64_t sum = 0;
  for (const char c : planes) sum += static_cast<uint8_t>(c);
  // Pillow's conversion of inks rounds otherwise: at most one level a value
  EXPECT_NEAR(static_cast<double>(sum), 599692, 37 * 53 * 3);
}

TEST(Decoders, BrightnessIsTheStoredOne) {
  if (off("photo.jpg")) GTEST_SKIP() << part_status("jpeg").reason;
  int64_t sum = 0;
  for (const char c : planes_of(contents_of(test_file("photo.jpg")), {.channels = 1}, 37, 53))
    sum += static_cast<uint8_t>(c);
  EXPECT_EQ(sum, 203613);  // Pillow's draft("L")
}

TEST(Decoders, ScaledLikePillow) {
  if (off("photo.jpg")) GTEST_SKIP() << part_status("jpeg").reason;
  const std::string photo = contents_of(test_file("photo.jpg"));
  EXPECT_EQ(md5(planes_of(photo, {.eighths = 4}, 19, 27)), "31eb0d6fbeea38bdc925b411404b81f9");
  EXPECT_EQ(md5(planes_of(photo, {.eighths = 2}, 10, 14)), "61e5b1c1e5711343ecc388cc45c501a3");
  EXPECT_EQ(md5(planes_of(photo, {.eighths = 1}, 5, 7)), "efb9460dbc33de0c0ecc5e70404e70c4");
}

TEST(Decoders, CropsAreTheSamePixels) {
  for (const char* file : {"photo.jpg", "progressive.jpg", "grey.jpg", "plain.png", "pixels.ppm"}) {
    if (off(file)) continue;
    const std::string encoded = contents_of(test_file(file));
    for (const bool planes : {true, false})
      for (const Index channels : {1, 3}) {
        const std::string whole = planes_of(encoded, {.channels = channels, .planes = planes}, 37, 53);
        for (const Region& crop : {Region{0, 0, 1, 1}, Region{5, 7, 20, 30}, Region{17, 33, 20, 20},
                                   Region{36, 52, 1, 1}, Region{0, 20, 37, 16}}) {
          const std::string part = planes_of(encoded, {channels, planes, 8, crop}, crop.height, crop.width);
          for (Index c = 0; c < channels; ++c)
            for (Index y = 0; y < crop.height; ++y)
              for (Index x = 0; x < crop.width; ++x) {
                const auto at = [&](Index height, Index width, Index row, Index column) {
                  return static_cast<size_t>(planes ? (c * height + row) * width + column
                                                    : (row * width + column) * channels + c);
                };
                ASSERT_EQ(part[at(crop.height, crop.width, y, x)], whole[at(37, 53, crop.top + y, crop.left + x)])
                    << file << " channel " << c << " of " << channels << ", " << y << ", " << x << " of the crop at "
                    << crop.top << ", " << crop.left;
              }
        }
        EXPECT_THROW(planes_of(encoded, {channels, planes, 8, Region{30, 0, 10, 10}}, 10, 10), Error);
      }
  }
}

TEST(Decoders, CropsOfRealPhotographs) {
  D5_NEEDS_REAL("jpegs/caltech101-3perclass");
  if (off("x.jpg")) GTEST_SKIP() << part_status("jpeg").reason;
  const auto set = open_container("folder", real_data() + "/jpegs/caltech101-3perclass");
  const auto whole = decoded(set, {}), crops = decoded(set, {.height = 101, .width = 77});
  for (Index i = 0; i < set->size(); i += 9) {
    const Tensor all = whole->at(i)[0], crop = crops->at(i)[0];
    const Index height = all.shape()[1], width = all.shape()[2];
    ASSERT_GE(height, 101);
    ASSERT_GE(width, 77);
    const Index top = (height - 101) / 2, left = (width - 77) / 2;
    for (Index c = 0; c < 3; ++c)
      for (Index y = 0; y < 101; ++y)
        ASSERT_EQ(std::memcmp(crop.values<uint8_t>().data() + (c * 101 + y) * 77,
                              all.values<uint8_t>().data() + (c * height + top + y) * width + left, 77),
                  0)
            << set->where(i) << " line " << y;
  }
}

TEST(Decoders, SmallPicturesLieInTheMiddleOfBlack) {
  const std::string encoded = contents_of(test_file("pixels.ppm"));
  const DecodeOptions options{.height = 41, .width = 20};
  std::vector<uint8_t> pixels(3 * 41 * 20, 9);
  decode_image(bytes_of(encoded), options, pixels.data());
  const std::string whole = planes_of(encoded, {}, 37, 53);
  EXPECT_EQ(pixels[0], 0);
  EXPECT_EQ(pixels[40 * 20 + 5], 0);
  EXPECT_EQ(pixels[2 * 20 + 3], static_cast<uint8_t>(whole[16 + 3]));  // two black lines, then line 0 from column 16 on
}

TEST(Decoders, ResizingKeepsAFlatColourAndTheMean) {
  const Tensor flat(DType::u8, Shape{3, 64, 96});
  flat.fill_bytes(77);
  for (const char* format : {"raw", "png", "jpeg"}) {
    if (format != std::string("raw") && !part_status(format).available) continue;
    const std::vector<uint8_t> encoded = registered<decoders>(format).encode(flat, 95);
    std::vector<uint8_t> pixels(3 * 24 * 24, 0);
    decode_image(encoded, {.height = 24, .width = 24, .resize = true}, pixels.data());
    for (const uint8_t pixel : pixels) ASSERT_NEAR(pixel, 77, format == std::string("jpeg") ? 1 : 0) << format;
  }
  // a ramp over columns: the middle 64 of 96 columns shrink to 16, pixel x is the mean of columns 16 + 4x + 1.5 on
  // either side
  const Tensor ramp(DType::u8, Shape{1, 64, 96});
  for (Index i = 0; i < ramp.elements(); ++i)
    ramp.values<uint8_t>()[static_cast<size_t>(i)] = static_cast<uint8_t>(2 * (i % 96));
  std::vector<uint8_t> pixels(16 * 16);
  decode_image(registered<decoders>("raw").encode(ramp, 0), {.channels = 1, .height = 16, .width = 16, .resize = true},
               pixels.data());
  for (int x = 0; x < 16; ++x) EXPECT_EQ(pixels[static_cast<size_t>(x)], 2 * 16 + 8 * x + 3);
}

TEST(Decoders, EncodeIsTheInverse) {
  const Tensor image = pictures(1, {3, 21, 19}, 2).at(0)[0];
  for (const char* format : {"raw", "png"}) {
    if (format != std::string("raw") && !part_status(format).available) continue;
    const std::vector<uint8_t> encoded = registered<decoders>(format).encode(image, 0);
    const std::string text(encoded.begin(), encoded.end());
    const std::string found = planes_of(text, {}, 21, 19);
    EXPECT_EQ(std::memcmp(found.data(), image.data(), image.bytes()), 0) << format;
  }
}

TEST(Decoders, BrokenPicturesAreErrors) {
  for (const char* file : {"photo.jpg", "progressive.jpg", "plain.png", "palette.png", "pixels.ppm"}) {
    if (off(file)) continue;
    const std::string whole = contents_of(test_file(file));
    for (const size_t keep : {whole.size() / 2, whole.size() - whole.size() / 8, size_t{10}}) {
      const std::string part = whole.substr(0, keep);
      EXPECT_THROW(planes_of(part, {}, 37, 53), SampleError) << file << " cut to " << keep;
    }
  }
  EXPECT_THROW(decoder_of(bytes_of("no picture at all")), SampleError);
  EXPECT_THROW(planes_of("P6 100000 100000 255\n", {}, 1, 1), SampleError);
}

TEST(Decoders, PlanesOfEveryLength) {
  for (Index pixels = 0; pixels < 70; ++pixels) {
    std::vector<uint8_t> rgb(static_cast<size_t>(3 * pixels)), planes(static_cast<size_t>(3 * pixels));
    for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(i * 5 + 1);
    split_planes(rgb.data(), pixels, planes.data(), planes.data() + pixels, planes.data() + 2 * pixels);
    for (Index i = 0; i < pixels; ++i)
      for (Index c = 0; c < 3; ++c)
        ASSERT_EQ(planes[static_cast<size_t>(c * pixels + i)], rgb[static_cast<size_t>(3 * i + c)]) << pixels;
  }
}

}  // namespace
}  // namespace d5
