// SPDX-License-Identifier: Apache-2.0
// Images with a known Bayes-optimal accuracy. Class k has a pattern m_k, a cosine over the image in one channel; the
// patterns are orthogonal and of the same norm, and a sample is
//   x = 128 + deviation (strength m_k + n),   n white and normal,   |m_k| = 1,
// with all classes equally likely. The best decision is the largest <x, m_k>, right with probability
//   P = integral of phi(z - d) Phi(z)^(K-1) dz,    d = strength;
// in u8 values are rounded, which adds a variance of 1/12: d = strength / sqrt(1 + 1 / (12 deviation^2)); deviation 32
// makes that 1.00004, and clipping at 0 and 255 (four deviations) is rarer than 1 in 15,000 pixels.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "d5/datasets/generators.hpp"

namespace d5 {
namespace {

constexpr const char* place = "[generated-images]";
constexpr double middle = 128, deviation = 32;

class Images final : public Generator {
 public:
  static constexpr const char* about = "images of a known Bayes-optimal accuracy: a pattern per class in white noise";
  static std::vector<DataOption> options() {
    return with_common({{"classes", "equally likely", int64_t{10}},
                        {"channels", "of an image", int64_t{3}},
                        {"height", "of an image", int64_t{32}},
                        {"width", "of an image", int64_t{32}},
                        {"strength", "of the pattern, in deviations of the noise", 4.0},
                        {"dtype", "u8 or f32", std::string("u8")}},
                       50000);
  }

  explicit Images(const Attributes& values) : Generator("generated-images", values) {
    classes_ = integer_in(values, "classes", 2, 1000, place);
    channels_ = integer_in(values, "channels", 1, 1 << 10, place);
    height_ = integer_in(values, "height", 1, 1 << 14, place);
    width_ = integer_in(values, "width", 1, 1 << 14, place);
    strength_ = real_in(values, "strength", 0, 100, place);
    rounded_ = one_of(values, "dtype", {"u8", "f32"}, place) == "u8";
    fields_ = {{"image", rounded_ ? DType::u8 : DType::f32, Shape{channels_, height_, width_}, {}},
               {"label", DType::i64, Shape{}, classes_}};
    // Cosines with the fewest waves first: without the constant one, then shared out to channels.
    std::vector<Wave> waves;
    for (Index v = 0; v < height_; ++v)
      for (Index u = 0; u < width_; ++u)
        if (u + v > 0) waves.push_back({v, u});
    std::ranges::stable_sort(waves, {}, [](const Wave& wave) { return wave.v * wave.v + wave.u * wave.u; });
    const auto each = static_cast<size_t>((classes_ + channels_ - 1) / channels_);
    if (waves.size() < each)
      throw UsageError("{} {} classes need more than {}x{}x{} pixels", place, classes_, channels_, height_, width_);
    waves.resize(each);
    for (const Wave& wave : waves) patterns_.push_back(pattern(wave));
  }

  void read(Index i, Sample& into) const override {
    const Rng rng = of_sample(i);
    const auto label = static_cast<Index>(rng.below(0, static_cast<uint64_t>(classes_)));
    written(into, 1).values<int64_t>()[0] = label;
    const Index plane = height_ * width_, first = label % channels_ * plane;
    const float* signal = patterns_[static_cast<size_t>(label / channels_)].data();
    const Tensor& image = written(into, 0);
    std::vector<float> own;
    if (rounded_) own.resize(static_cast<size_t>(image.elements()));
    const std::span<float> x = rounded_ ? std::span(own) : image.values<float>();
    fill_normal(x, rng);
    for (Index p = 0; p < plane; ++p) x[static_cast<size_t>(first + p)] += signal[p];
    for (float& value : x) value = static_cast<float>(middle + deviation * value);
    if (rounded_) {
      uint8_t* pixels = image.values<uint8_t>().data();
      for (size_t p = 0; p < own.size(); ++p) pixels[p] = static_cast<uint8_t>(std::clamp(own[p], 0.0f, 255.0f) + 0.5f);
    }
  }

  std::optional<Optimum> optimum() const override {
    const double noise = rounded_ ? std::sqrt(1 + 1 / (12 * deviation * deviation)) : 1;
    return Optimum{"accuracy", orthogonal_signal_accuracy(strength_ / noise, classes_),
                   "the largest product with the classes' patterns"};
  }

 private:
  struct Wave {
    Index v, u;
  };
  std::vector<float> pattern(const Wave& wave) const {
    std::vector<double> exact;
    double energy = 0;
    for (Index y = 0; y < height_; ++y)
      for (Index x = 0; x < width_; ++x) {
        const auto turn = [](Index k, Index at, Index n) {
          return std::cos(std::numbers::pi * static_cast<double>(k) * (static_cast<double>(at) + 0.5) /
                          static_cast<double>(n));
        };
        exact.push_back(turn(wave.v, y, height_) * turn(wave.u, x, width_));
        energy += exact.back() * exact.back();
      }
    std::vector<float> scaled;
    for (const double value : exact) scaled.push_back(static_cast<float>(strength_ * value / std::sqrt(energy)));
    return scaled;
  }

  Index classes_, channels_, height_, width_;
  double strength_;
  bool rounded_;
  std::vector<std::vector<float>> patterns_;  // by wave; class k has wave k / channels in channel k mod channels
};

}  // namespace

double orthogonal_signal_accuracy(double strength, Index classes) {
  // Both factors are smooth and die out: the trapezoidal rule converges beyond any power of its step.
  const auto upper = [](double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); };
  const double step = 1.0 / 64;
  double sum = 0;
  for (double t = -9; t <= 9; t += step)
    sum += std::exp(-0.5 * t * t) * std::pow(upper(t + strength), static_cast<double>(classes - 1));
  return sum * step / std::sqrt(2 * std::numbers::pi);
}

D5_REGISTER(datasets, "generated-images", Generated<Images>);

}  // namespace d5
