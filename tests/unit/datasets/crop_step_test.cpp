// SPDX-License-Identifier: Apache-2.0
// Crops as networks for ImageNet are trained and tested on. Pixels are compared with Pillow 9.4 (mode F, BILINEAR),
// boxes with the distribution of torchvision's published algorithm, drawn 400,000 times.
#include "d5/datasets/crop_step.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "d5/datasets/decoder.hpp"
#include "d5/datasets/loader.hpp"
#include "d5/datasets/parts.hpp"
#include "d5/datasets/tensor_dataset.hpp"
#include "samples_in_memory.hpp"

namespace d5 {
namespace {

using testing::ElementsAreArray;
using testing::FloatNear;
using testing::Pointwise;

bool is_off(const std::string& decoder) {
  for (const PartStatus& part : all_of_kind("decoder"))
    if (part.name == decoder) return !part.available;
  return true;
}

constexpr Index wide = 20, high = 14;

template <class T>
std::vector<T> plane() {
  std::vector<T> pixels;
  for (Index y = 0; y < high; ++y)
    for (Index x = 0; x < wide; ++x) pixels.push_back(static_cast<T>((3 * x * x + 5 * y * y + 7 * x * y) % 251));
  return pixels;
}
template <class T>
std::vector<T> part_of_plane(Index top, Index left, Index height, Index width, Index new_height, Index new_width) {
  const std::vector<T> pixels = plane<T>();
  std::vector<T> result(static_cast<size_t>(new_height * new_width));
  resample<T>({pixels.data() + top * wide + left, 1, height, width, wide, 0},
              {0, 0, static_cast<double>(height), static_cast<double>(width)}, result.data(), new_height, new_width);
  return result;
}

TEST(Resample, IsPillowsBilinearFilter) {
  const std::vector<float> smaller{138.471f,  124.1556f, 138.7581f, 129.3817f, 125.6749f, 128.7922f,
                                   110.7778f, 124.0893f, 127.3959f, 135.1182f, 132.456f,  113.2511f};
  EXPECT_THAT(part_of_plane<float>(2, 3, 10, 13, 3, 4), Pointwise(FloatNear(1e-3f), smaller));
  const std::vector<float> larger{89,     103,    124, 148.6f, 165,    112,    127.4f, 150.5f,
                                  177.2f, 195.0f, 135, 151.8f, 177.0f, 205.8f, 225};
  EXPECT_THAT(part_of_plane<float>(2, 3, 2, 3, 3, 5), Pointwise(FloatNear(1e-3f), larger));
  EXPECT_THAT(part_of_plane<uint8_t>(2, 3, 10, 13, 3, 4),
              ElementsAreArray({138, 124, 139, 129, 126, 129, 111, 124, 127, 135, 132, 113}));
}

TEST(CentreCrop, IsResizeAndCentreCropOfPillow) {
  const TensorDataset data("one", {{"image", DType::f32, {}, {}}},
                           {Tensor::from<float>({1, high, wide}, plane<float>())});
  const auto made = augmented(std::make_shared<TensorDataset>(data),
                              {{"centre-crop", {{"height", int64_t{4}}, {"shorter", int64_t{7}}}}}, 0, 0);
  EXPECT_EQ(made->fields()[0].shape, (Shape{4, 4}));
  const Tensor image = made->at(0)[0];
  const auto pixels = image.values<float>();
  const std::vector<float> expected{117.1562f, 136.8125f, 129.4844f, 150.0781f, 125.9844f, 126.5781f,
                                    88.4219f,  113.4844f, 127.75f,   148.5f,    126.5781f, 120.8125f,
                                    118.5312f, 143.75f,   141.9844f, 117.1562f};
  EXPECT_THAT(std::vector<float>(pixels.begin(), pixels.end()), Pointwise(FloatNear(1e-3f), expected));
}

// A picture of x, y, x^2, y^2. One pixel of a whole box is its centre c, of the squares c^2 and the variance of the
// filter over the box, which grows with the box: so the box is seen from outside.
std::shared_ptr<const Dataset> coordinates(Index height, Index width) {
  const Tensor all(DType::f32, {1, 4, height, width});
  float* to = all.values<float>().data();
  for (Index c = 0; c < 4; ++c)
    for (Index y = 0; y < height; ++y)
      for (Index x = 0; x < width; ++x) {
        const Index value = c % 2 ? y : x;
        *to++ = static_cast<float>(c < 2 ? value : value * value);
      }
  return std::make_shared<TensorDataset>("coordinates", std::vector<Field>{{"image", DType::f32, {}, {}}},
                                         std::vector<Tensor>{all});
}
Index size_of_variance(double variance, Index most) {
  double nearest = 1e9;
  Index found = 0;
  for (Index size = 1; size <= most; ++size) {
    double sum = 0, square = 0;
    for (Index i = 0; i < size; ++i) {
      const double d = static_cast<double>(i) - static_cast<double>(size - 1) / 2;
      const double weight = 1 - std::abs(d) / static_cast<double>(size);
      sum += weight;
      square += weight * d * d;
    }
    if (const double off = std::abs(square / sum - variance); off < nearest) nearest = off, found = size;
  }
  return found;
}
struct Box {
  Index top, left, height, width;
  bool operator==(const Box&) const = default;
};
std::vector<Box> boxes(Index height, Index width, Index count) {
  const Augmented crops(coordinates(height, width), {{"random-resized-crop", {{"height", int64_t{1}}}}}, 7);
  std::vector<Box> all;
  for (Index epoch = 0; epoch < count; ++epoch) {
    Sample sample(1);
    crops.read(epoch, 0, sample);
    const auto v = sample[0].values<float>();
    const auto size = [&](size_t square, size_t centre, Index most) {
      return size_of_variance(v[square] - static_cast<double>(v[centre]) * v[centre], most);
    };
    const Index w = size(2, 0, width), h = size(3, 1, height);
    const auto begin = [](float centre, Index of) { return std::lround(centre - static_cast<float>(of - 1) / 2); };
    all.push_back({begin(v[1], h), begin(v[0], w), h, w});
  }
  return all;
}

TEST(RandomResizedCrop, BoxesAreDistributedAsPublished) {
  constexpr Index count = 4000;
  double share = 0, ratio = 0, small = 0, width = 0, height = 0, top = 0, left = 0;
  for (const Box& box : boxes(75, 100, count)) {
    ASSERT_TRUE(box.top >= 0 && box.left >= 0 && box.top + box.height <= 75 && box.left + box.width <= 100);
    const double part = static_cast<double>(box.width * box.height) / 7500;
    share += part;
    small += part < 0.3;
    ratio += std::log(static_cast<double>(box.width) / static_cast<double>(box.height));
    width += static_cast<double>(box.width);
    height += static_cast<double>(box.height);
    top += box.height < 75 ? static_cast<double>(box.top) / static_cast<double>(75 - box.height) : 0.5;
    left += box.width < 100 ? static_cast<double>(box.left) / static_cast<double>(100 - box.width) : 0.5;
  }
  const double n = count, sigmas = 4 / std::sqrt(n);
  EXPECT_NEAR(share / n, 0.4366, sigmas * 0.2188);
  EXPECT_NEAR(ratio / n, 0.03048, sigmas * 0.1646);
  EXPECT_NEAR(small / n, 0.31759, sigmas * 0.4655);
  EXPECT_NEAR(width / n, 56.575, sigmas * 17.37);
  EXPECT_NEAR(height / n, 54.236, sigmas * 14.14);
  EXPECT_NEAR(top / n, 0.4996, sigmas * 0.3158);
  EXPECT_NEAR(left / n, 0.5002, sigmas * 0.2979);
}

TEST(RandomResizedCrop, APictureThatIsTooWideIsOftenItsMiddle) {
  constexpr Index count = 4000;
  const std::vector<Box> all = boxes(40, 200, count);
  const auto middle = std::ranges::count(all, Box{0, 73, 40, 53});
  EXPECT_NEAR(static_cast<double>(middle) / count, 0.2251, 4 / std::sqrt(double{count}) * 0.4176);
}

TEST(RandomResizedCrop, WrongValuesAreRefused) {
  const auto data = coordinates(4, 4);
  const auto refuses = [&](const std::string& name, const Attributes& values) {
    EXPECT_THROW(augmented(data, {{name, values}}, 0, 0), UsageError) << name;
  };
  refuses("random-resized-crop", {{"scale", std::vector<double>{0, 1}}});
  refuses("random-resized-crop", {{"scale", std::vector<double>{0.5, 0.4}}});
  refuses("random-resized-crop", {{"scale", std::vector<double>{0.5, 1.1}}});
  refuses("random-resized-crop", {{"ratio", std::vector<double>{1}}});
  refuses("random-resized-crop", {{"height", int64_t{0}}});
  refuses("centre-crop", {{"shorter", int64_t{200}}});
}

// Photographs of two sizes, encoded; smooth, so that scaling before or after decoding is nearly the same.
std::shared_ptr<const Dataset> photographs(const std::string& format) {
  std::vector<Sample> samples;
  for (Index i = 0; i < 12; ++i) {
    const Index height = i % 2 ? 150 : 96, width = i % 2 ? 100 : 128;
    const Tensor image(DType::u8, {3, height, width});
    uint8_t* to = image.values<uint8_t>().data();
    for (Index c = 0; c < 3; ++c)
      for (Index y = 0; y < height; ++y)
        for (Index x = 0; x < width; ++x)
          *to++ =
              static_cast<uint8_t>(128 + 60 * std::sin(0.07 * double(x + 5 * c)) + 60 * std::cos(0.05 * double(y + i)));
    const std::vector<uint8_t> bytes = registered<decoders>(format).encode(image, 95);
    samples.push_back(
        {Tensor::from<uint8_t>({static_cast<Index>(bytes.size())}, bytes), Tensor::from<int64_t>({}, {i})});
  }
  return std::make_shared<InMemory>(
      std::vector<Field>{{"image", DType::u8, {}, {}}, {"label", DType::i64, Shape{}, 12}}, std::move(samples));
}

double largest_difference(const Dataset& a, const Dataset& b) {
  double largest = 0;
  for (Index i = 0; i < a.size(); ++i) {
    const Sample one = a.at(i), other = b.at(i);
    const auto p = one[0].values<uint8_t>(), q = other[0].values<uint8_t>();
    EXPECT_EQ(p.size(), q.size());
    for (size_t k = 0; k < p.size(); ++k) largest = std::max(largest, std::abs(static_cast<double>(p[k]) - q[k]));
  }
  return largest;
}

TEST(CropSteps, OfAnEncodedPictureAreThoseOfItsPixels) {
  for (const std::string format : {"jpeg", "png", "raw"}) {
    if (is_off(format)) continue;
    const auto encoded = photographs(format);
    const auto pixels = decoded(encoded, {});
    for (const auto& [size, tolerance] : {std::pair{int64_t{90}, 0.0}, std::pair{int64_t{20}, 4.0}})
      for (const char* step : {"random-resized-crop", "centre-crop"}) {
        const std::vector<AugmentationStep> steps{{step, {{"height", size}}}};
        const auto straight = augmented(encoded, steps, 3, 1), whole = augmented(pixels, steps, 3, 1);
        EXPECT_EQ(straight->fields()[0].shape, (Shape{3, size, size}));
        EXPECT_LE(largest_difference(*straight, *whole), format == "jpeg" ? tolerance : 0)
            << format << " " << step << size;
      }
  }
}

TEST(CropSteps, TheSameForAnyNumberOfThreads) {
  const auto data = std::make_shared<const Augmented>(
      photographs(is_off("jpeg") ? "raw" : "jpeg"),
      std::vector<AugmentationStep>{{"random-resized-crop", {{"height", int64_t{32}}}}, {"flip", {}}}, 5);
  const std::shared_ptr<const Sampler> order = make_sampler("shuffle", 12, 1);
  std::vector<std::vector<uint8_t>> first;
  for (const int threads : {0, 1, 3}) {
    Loader loader(data, order, {.batch = 4, .threads = threads, .epochs = 3});
    std::vector<std::vector<uint8_t>> all;
    while (const Batch* batch = loader.next()) {
      const auto pixels = batch->fields[0].values<uint8_t>();
      all.emplace_back(pixels.begin(), pixels.end());
    }
    ASSERT_EQ(all.size(), 9u);
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << threads << " threads";
  }
  EXPECT_NE(first[0], first[3]);  // another epoch
}

TEST(CropSteps, ABrokenPictureIsNamed) {
  const InMemory broken({{"image", DType::u8, {}, {}}}, {{Tensor::from<uint8_t>({3}, {1, 2, 3})}});
  const auto made = augmented(std::make_shared<InMemory>(broken), {{"random-resized-crop", {}}}, 0, 0);
  EXPECT_THROW(made->at(0), SampleError);
}

}  // namespace
}  // namespace d5
