// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/augmentation.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <numeric>

#include "d5/datasets/tensor_dataset.hpp"
#include "d5/datasets/views.hpp"

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::Pointwise;

// Samples of one shape: u8 or f32 pixels counted on, and the label i mod classes.
template <class T>
std::shared_ptr<const Dataset> pictures(Index samples, const Shape& shape, Index classes = 4) {
  std::vector<T> pixels;
  for (Index i = 0; i < samples * shape.elements(); ++i) pixels.push_back(static_cast<T>(1 + i % 250));
  std::vector<int64_t> labels;
  for (Index i = 0; i < samples; ++i) labels.push_back(i % classes);
  std::vector<Index> sizes{samples};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return std::make_shared<TensorDataset>(
      "pictures", std::vector<Field>{{"image", dtype_of<T>::value, {}, {}}, {"label", DType::i64, {}, classes}},
      std::vector<Tensor>{Tensor::from<T>(Shape(sizes), pixels), Tensor::from<int64_t>({samples}, labels)});
}
std::shared_ptr<const Dataset> picture(const Shape& shape, const std::vector<float>& pixels) {
  std::vector<Index> sizes{1};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return std::make_shared<TensorDataset>("picture", std::vector<Field>{{"image", DType::f32, {}, {}}},
                                         std::vector<Tensor>{Tensor::from<float>(Shape(sizes), pixels)});
}
template <class T>
std::vector<T> pixels_of(const Sample& sample) {
  const auto values = sample[0].template values<T>();
  return {values.begin(), values.end()};
}

TEST(Augmentation, DependsOnSeedEpochAndSampleAlone) {
  const std::vector<AugmentationStep> steps{{"crop", {{"padding", int64_t{2}}}},
                                            {"flip", {}},
                                            {"cutout", {{"size", int64_t{3}}}},
                                            {"jitter", {}},
                                            {"normalise", {{"mean", std::vector<double>{0.5}}}},
                                            {"mixup", {}}};
  const auto data = pictures<uint8_t>(20, {3, 8, 8});
  const auto one = augmented(data, steps, 5, 2), again = augmented(data, steps, 5, 2);
  EXPECT_EQ(one->fields()[0].dtype, DType::f32);
  EXPECT_EQ(one->fields()[1].shape, Shape{4});
  for (Index i = 19; i >= 0; --i) {
    Sample row{Tensor(DType::f32, {3, 8, 8}), Tensor(DType::f32, {4})};
    again->read(i, row);
    EXPECT_EQ(pixels_of<float>(one->at(i)), pixels_of<float>(row));
  }
  EXPECT_NE(pixels_of<float>(one->at(3)), pixels_of<float>(augmented(data, steps, 5, 3)->at(3)));
  EXPECT_NE(pixels_of<float>(one->at(3)), pixels_of<float>(augmented(data, steps, 6, 2)->at(3)));
  // The data set itself is as it was, though it gives views.
  EXPECT_EQ(pixels_of<uint8_t>(data->at(0))[0], 1);
  EXPECT_EQ(pixels_of<uint8_t>(data->at(0)), pixels_of<uint8_t>(pictures<uint8_t>(20, {3, 8, 8})->at(0)));
}

TEST(Augmentation, WrongNamesValuesAndFieldsAreRefused) {
  const auto data = pictures<uint8_t>(2, {3, 8, 8});
  const auto refuses = [&](const std::string& name, const Attributes& values) {
    EXPECT_THROW(augmented(data, {{name, values}}, 0, 0), UsageError) << name;
  };
  refuses("krop", {});
  refuses("crop", {{"pading", int64_t{1}}});
  refuses("crop", {{"height", int64_t{9}}});
  refuses("flip", {{"probability", 1.5}});
  refuses("flip", {{"axis", std::string("diagonal")}});
  refuses("flip", {{"field", std::string("picture")}});
  refuses("flip", {{"field", std::string("label")}});
  refuses("normalise", {{"mean", std::vector<double>{0.1, 0.2}}});
  refuses("normalise", {{"deviation", std::vector<double>{0.0}}});
  refuses("resize", {{"height", int64_t{0}}});
  refuses("mixup", {{"label", std::string("image")}});
  refuses("mixup", {{"alpha", 0.0}});
  EXPECT_THROW(augmented(picture({4}, {1, 2, 3, 4}), {{"flip", {}}}, 0, 0), UsageError);
}

TEST(Augmentation, CropTakesEveryPlaceEquallyOften) {
  const auto data = pictures<uint8_t>(9000, {1, 4, 4});
  const auto cropped = augmented(data, {{"crop", {{"padding", int64_t{1}}}}}, 3, 0);
  EXPECT_EQ(cropped->fields()[0].shape, (Shape{1, 4, 4}));
  std::map<std::pair<Index, Index>, int> counts;
  for (Index i = 0; i < data->size(); ++i) {
    const std::vector<uint8_t> whole = pixels_of<uint8_t>(data->at(i)), part = pixels_of<uint8_t>(cropped->at(i));
    int fits = 0;
    for (Index top = -1; top <= 1; ++top)
      for (Index left = -1; left <= 1; ++left) {
        std::vector<uint8_t> expected;
        for (Index y = top; y < top + 4; ++y)
          for (Index x = left; x < left + 4; ++x)
            expected.push_back(y < 0 || y > 3 || x < 0 || x > 3 ? 0 : whole[static_cast<size_t>(y * 4 + x)]);
        if (expected == part) {
          ++fits;
          ++counts[{top, left}];
        }
      }
    ASSERT_EQ(fits, 1) << "sample " << i;
  }
  ASSERT_EQ(counts.size(), 9u);
  for (const auto& [at, count] : counts) EXPECT_LE(std::abs(count - 1000), 5 * std::sqrt(1000.0 * 8 / 9));
}

TEST(Augmentation, CropOfASmallerWindow) {
  const auto cropped =
      augmented(pictures<float>(1, {2, 3, 3}), {{"crop", {{"height", int64_t{1}}, {"width", int64_t{3}}}}}, 3, 0);
  const std::vector<float> part = pixels_of<float>(cropped->at(0));
  EXPECT_EQ(cropped->at(0)[0].shape(), (Shape{2, 1, 3}));
  const float row = (part[0] - 1) / 3;
  EXPECT_THAT(part, ElementsAre(1 + 3 * row, 2 + 3 * row, 3 + 3 * row, 10 + 3 * row, 11 + 3 * row, 12 + 3 * row));
}

TEST(Augmentation, FlipMirrors) {
  const auto data = pictures<uint8_t>(1, {1, 2, 3});
  const auto flipped = [&](const char* axis, double probability) {
    return pixels_of<uint8_t>(
        augmented(data, {{"flip", {{"axis", std::string(axis)}, {"probability", probability}}}}, 0, 0)->at(0));
  };
  EXPECT_THAT(flipped("horizontal", 1), ElementsAre(3, 2, 1, 6, 5, 4));
  EXPECT_THAT(flipped("vertical", 1), ElementsAre(4, 5, 6, 1, 2, 3));
  EXPECT_THAT(flipped("vertical", 0), ElementsAre(1, 2, 3, 4, 5, 6));
  const auto many = pictures<uint8_t>(10000, {1, 1, 2});
  const auto half = augmented(many, {{"flip", {}}}, 9, 4);
  int count = 0;
  for (Index i = 0; i < many->size(); ++i) count += pixels_of<uint8_t>(half->at(i)) != pixels_of<uint8_t>(many->at(i));
  EXPECT_LE(std::abs(count - 5000), 5 * 50);  // five deviations
}

// Pictures of any size come as views of what may be a mapped file: that is not written.
TEST(Augmentation, PicturesOfAnySizeAreCopiedBeforeTheyAreChanged) {
  const auto data = pictures<uint8_t>(1, {1, 1, 3});
  const auto any =
      mapped(data, {{"image", DType::u8, {}, {}}}, [](Index, const Sample& in, Sample& out) { out[0] = in[0]; });
  const auto flipped = augmented(any, {{"flip", {{"probability", 1.0}}}}, 0, 0);
  EXPECT_THAT(pixels_of<uint8_t>(flipped->at(0)), ElementsAre(3, 2, 1));
  EXPECT_THAT(pixels_of<uint8_t>(data->at(0)), ElementsAre(1, 2, 3));
  // A crop or a new size gives pictures of a fixed one; they have three channels.
  EXPECT_THROW(augmented(any, {{"resize", {{"height", int64_t{2}}}}}, 0, 0)->at(0), SampleError);
  EXPECT_THROW(augmented(any, {{"crop", {}}}, 0, 0), UsageError);
}

TEST(Augmentation, CutoutBlanksASquare) {
  const auto data = pictures<float>(500, {2, 9, 9});
  const auto cut = augmented(data, {{"cutout", {{"size", int64_t{3}}, {"value", -7.0}}}}, 1, 0);
  Index fewest = 100, most = 0;
  for (Index i = 0; i < 500; ++i) {
    const std::vector<float> before = pixels_of<float>(data->at(i)), after = pixels_of<float>(cut->at(i));
    Index blank = 0;
    for (size_t p = 0; p < 81; ++p) {
      EXPECT_EQ(after[p] == -7, after[81 + p] == -7);
      blank += after[p] == -7;
      EXPECT_TRUE(after[p] == -7 || after[p] == before[p]);
    }
    fewest = std::min(fewest, blank);
    most = std::max(most, blank);
  }
  EXPECT_EQ(most, 9);    // within the image
  EXPECT_EQ(fewest, 4);  // around a corner
}

// The results of PyTorch 2.15, torch.nn.functional.interpolate(mode="bilinear", align_corners=False) in double. Every
// value goes through three fused or rounded steps in f32 on numbers up to 255: below 255 x 6 x 2^-24 = 1e-4.
TEST(Augmentation, ResizeAgreesWithPyTorch) {
  const std::vector<float> image{0, 10, 20, 35, 40, 5, 60, 7, 80, 90, 100, 255};
  const auto resized = [&](int64_t height, int64_t width) {
    return pixels_of<float>(
        augmented(picture({1, 3, 4}, image), {{"resize", {{"height", height}, {"width", width}}}}, 0, 0)->at(0));
  };
  EXPECT_THAT(resized(5, 7),
              Pointwise(testing::FloatNear(1e-4f),
                        std::vector<float>{0.0,  3.571429,  9.285714,  15.0, 21.071429,  29.642857,  35.0,
                                           16.0, 13.142857, 8.571429,  22.0, 35.128571,  28.157143,  23.8,
                                           40.0, 27.5,      7.5,       32.5, 56.214286,  25.928571,  7.0,
                                           64.0, 61.142857, 56.571429, 70.0, 89.128571,  130.157143, 155.8,
                                           80.0, 83.571429, 89.285714, 95.0, 111.071429, 199.642857, 255.0}));
  EXPECT_THAT(resized(2, 3), Pointwise(testing::FloatNear(1e-4f),
                                       std::vector<float>{9.791667, 19.375, 28.333333, 69.791667, 79.375, 175.833333}));
  EXPECT_EQ(resized(3, 4), image);
  EXPECT_THAT(resized(1, 1), Pointwise(testing::FloatNear(1e-4f), std::vector<float>{32.5}));
}

TEST(Augmentation, ResizeRoundsBytes) {
  const auto data = pictures<uint8_t>(1, {1, 1, 2});  // 1, 2
  const auto resized = augmented(data, {{"resize", {{"height", int64_t{1}}, {"width", int64_t{4}}}}}, 0, 0);
  EXPECT_THAT(pixels_of<uint8_t>(resized->at(0)), ElementsAre(1, 1, 2, 2));  // 1, 1.25, 1.75, 2
}

TEST(Augmentation, NormaliseScalesEachChannel) {
  const auto data = pictures<uint8_t>(1, {2, 1, 2});  // 1, 2; 3, 4
  const auto scaled = augmented(
      data, {{"normalise", {{"mean", std::vector<double>{0.5, 0.25}}, {"deviation", std::vector<double>{0.5, 2}}}}}, 0,
      0);
  EXPECT_EQ(scaled->fields()[0].dtype, DType::f32);
  const std::vector<float> expected{(1 / 255.f - 0.5f) / 0.5f, (2 / 255.f - 0.5f) / 0.5f, (3 / 255.f - 0.25f) / 2,
                                    (4 / 255.f - 0.25f) / 2};
  EXPECT_THAT(pixels_of<float>(scaled->at(0)), Pointwise(testing::FloatNear(4 * 0x1p-24f), expected));
}

// With one factor drawn, the others 1, the factor can be read off; with all three the formula, in numpy's numbers, is
// checked by inverting what was drawn.
TEST(Augmentation, JitterFollowsItsFormula) {
  const std::vector<float> image{0.10f, 0.20f, 0.30f, 0.40f, 0.25f, 0.15f};  // three channels of two pixels
  const auto jittered = [&](double b, double c, double s, Index epoch) {
    return pixels_of<float>(augmented(picture({3, 1, 2}, image),
                                      {{"jitter", {{"brightness", b}, {"contrast", c}, {"saturation", s}}}}, 1, epoch)
                                ->at(0));
  };
  EXPECT_EQ(jittered(0, 0, 0, 0), image);
  const auto grey = [](const std::vector<float>& x, size_t p) {
    return 0.299f * x[p] + 0.587f * x[2 + p] + 0.114f * x[4 + p];
  };
  const float middle = (grey(image, 0) + grey(image, 1)) / 2;
  float least = 2, most = 0;
  for (Index epoch = 0; epoch < 300; ++epoch) {
    const std::vector<float> b = jittered(0.4, 0, 0, epoch), c = jittered(0, 0.4, 0, epoch),
                             s = jittered(0, 0, 0.4, epoch);
    const float brightness = b[0] / image[0], contrast = (c[0] - middle) / (image[0] - middle),
                saturation = (s[0] - grey(image, 0)) / (image[0] - grey(image, 0));
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(b[i], brightness * image[i], 1e-6);
      EXPECT_NEAR(c[i], contrast * image[i] + (1 - contrast) * middle, 1e-6);
      EXPECT_NEAR(s[i], saturation * image[i] + (1 - saturation) * grey(image, i % 2), 1e-6);
    }
    least = std::min(least, brightness);
    most = std::max(most, brightness);
  }
  EXPECT_NEAR(least, 0.6, 0.02);
  EXPECT_NEAR(most, 1.4, 0.02);
}

TEST(Augmentation, MixupMixesSamplesAndClasses) {
  // Image i is i everywhere, its class is i, so the mixture can be read off both.
  const Index n = 50;
  std::vector<float> pixels;
  std::vector<int64_t> labels;
  for (Index i = 0; i < n; ++i) {
    pixels.insert(pixels.end(), 4, static_cast<float>(i));
    labels.push_back(i);
  }
  const auto data = std::make_shared<TensorDataset>(
      "levels", std::vector<Field>{{"image", DType::f32, {}, {}}, {"label", DType::i64, {}, n}},
      std::vector<Tensor>{Tensor::from<float>({n, 1, 2, 2}, pixels), Tensor::from<int64_t>({n}, labels)});
  std::vector<double> weights;
  for (Index epoch = 0; epoch < 200; ++epoch) {
    const auto mixed = augmented(data, {{"mixup", {{"alpha", 0.4}}}}, 2, epoch);
    for (Index i = 0; i < n; ++i) {
      const Sample sample = mixed->at(i);
      const auto shares = sample[1].values<float>();
      double sum = 0, expected = 0;
      Index present = 0;
      for (Index k = 0; k < n; ++k) {
        const double share = shares[static_cast<size_t>(k)];
        sum += share;
        expected += share * static_cast<double>(k);
        present += share > 0;
      }
      EXPECT_NEAR(sum, 1, 1e-6);
      EXPECT_LE(present, 2);
      EXPECT_NEAR(sample[0].values<float>()[3], expected, 1e-4);
      if (present == 2) weights.push_back(shares[static_cast<size_t>(i)]);
    }
  }
  // Beta(a, a): mean 1/2, variance 1 / (4 (2 a + 1)) = 0.1389 at 0.4; five standard errors of 9,800 draws.
  double mean = 0, square = 0;
  for (const double w : weights) mean += w / double(weights.size());
  for (const double w : weights) square += (w - 0.5) * (w - 0.5) / double(weights.size());
  EXPECT_GT(weights.size(), 9000u);
  EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(0.1389 / double(weights.size())));
  EXPECT_NEAR(square, 0.1389,
              5 * std::sqrt(0.0081 / double(weights.size())));  // fourth moment: 3 / (16 (2 a + 1) (2 a + 3))
}

}  // namespace
}  // namespace d5
