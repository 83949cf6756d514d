// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>

#include "d5/datasets/generators.hpp"

namespace d5 {
namespace {

const std::vector<std::string> names{"generated-images", "generated-volumes", "generated-climate", "generated-text",
                                     "generated-strain"};

bool same(const Sample& a, const Sample& b) {
  for (size_t f = 0; f < a.size(); ++f)
    if (std::memcmp(a[f].data(), b[f].data(), a[f].bytes()) != 0) return false;
  return true;
}

TEST(Generators, SamplesDependOnSeedPartAndNumberAlone) {
  EXPECT_THROW(generate("generated-image"), UsageError);
  for (const std::string& name : names) {
    const auto data = generate(name), small = generate(name, {{"size", int64_t{8}}});
    const auto other = generate(name, {{"seed", int64_t{2}}}), test = generate(name, {{"part", std::string("test")}});
    Sample row;
    for (const Field& field : data->fields()) row.emplace_back(field.dtype, *field.shape);
    data->read(7, row);
    EXPECT_TRUE(same(small->at(7), row)) << name;
    EXPECT_FALSE(same(data->at(6), row)) << name;
    EXPECT_FALSE(same(other->at(7), row)) << name;
    EXPECT_FALSE(same(test->at(7), row)) << name;
    EXPECT_THROW(small->at(8), Error) << name;
    EXPECT_THROW(small->at(-1), Error) << name;
    EXPECT_THROW(generate(name, {{"sise", int64_t{8}}}), UsageError) << name;
    EXPECT_THROW(generate(name, {{"size", int64_t{0}}}), UsageError) << name;
    EXPECT_THROW(generate(name, {{"part", std::string("best")}}), UsageError) << name;
  }
}

TEST(Generators, AnySizeOpensAtOnce) {
  for (const std::string& name : names) {
    const auto data = generate(name, {{"size", int64_t{1} << 40}});
    EXPECT_EQ(data->size(), int64_t{1} << 40);
    EXPECT_EQ(data->at((int64_t{1} << 40) - 1).size(), data->fields().size()) << name;
  }
}

TEST(Generators, NormalNumbersHaveTheirMoments) {
  std::vector<float> x(400001);
  fill_normal(x, Rng(3, 4));
  double m[5] = {};
  for (const float v : x)
    for (int k = 1; k <= 4; ++k) m[k] += std::pow(v, k) / double(x.size());
  const double n = double(x.size());
  EXPECT_NEAR(m[1], 0, 5 / std::sqrt(n));
  EXPECT_NEAR(m[2], 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(m[3], 0, 5 * std::sqrt(15 / n));
  EXPECT_NEAR(m[4], 3, 5 * std::sqrt(96 / n));
  std::vector<float> part(10);
  fill_normal(part, Rng(3, 4));
  EXPECT_EQ(part, std::vector<float>(x.begin(), x.begin() + 10));
}

// numpy: the integral by the trapezoidal rule over 200,001 points.
TEST(Generators, AccuracyOfOrthogonalSignals) {
  EXPECT_NEAR(orthogonal_signal_accuracy(1, 2), 0.7602499389065234, 1e-12);
  EXPECT_NEAR(orthogonal_signal_accuracy(2, 10), 0.6736454790069352, 1e-12);
  EXPECT_NEAR(orthogonal_signal_accuracy(4, 10), 0.983222231746603, 1e-12);
  EXPECT_NEAR(orthogonal_signal_accuracy(3, 100), 0.6778573418581403, 1e-12);
  EXPECT_NEAR(orthogonal_signal_accuracy(0, 7), 1.0 / 7, 1e-12);
}

// The classifier that knows the classes' patterns, made here anew: cosines by growing wave number, shared out to
// channels.
size_t best_class(const std::vector<float>& x, Index classes, Index channels, Index height, Index width) {
  std::vector<std::pair<Index, Index>> waves;
  for (Index v = 0; v < height; ++v)
    for (Index u = 0; u < width; ++u)
      if (u + v > 0) waves.push_back({v, u});
  std::ranges::stable_sort(waves, {}, [](const auto& w) { return w.first * w.first + w.second * w.second; });
  double best = -1e300;
  size_t at = 0;
  for (Index k = 0; k < classes; ++k) {
    const auto [v, u] = waves[static_cast<size_t>(k / channels)];
    double product = 0, energy = 0;
    for (Index y = 0; y < height; ++y)
      for (Index c = 0; c < width; ++c) {
        const double m = std::cos(std::numbers::pi * double(v) * (double(y) + 0.5) / double(height)) *
                         std::cos(std::numbers::pi * double(u) * (double(c) + 0.5) / double(width));
        product += m * (x[static_cast<size_t>((k % channels * height + y) * width + c)] - 128);
        energy += m * m;
      }
    if (product / std::sqrt(energy) > best) {
      best = product / std::sqrt(energy);
      at = static_cast<size_t>(k);
    }
  }
  return at;
}

// The best classifier reaches the stated accuracy, within five standard errors; one that knows less than it does not.
TEST(Generators, ImagesHaveTheirBayesAccuracy) {
  for (const std::string type : {"u8", "f32"})
    for (const double strength : {0.0, 1.5, 3.0}) {
      const Index classes = 7, channels = 2, height = 8, width = 6, n = 6000;
      const auto data = generate("generated-images", {{"classes", classes},
                                                      {"channels", channels},
                                                      {"height", height},
                                                      {"width", width},
                                                      {"strength", strength},
                                                      {"dtype", type},
                                                      {"size", n}});
      Index right = 0;
      std::vector<double> counts(static_cast<size_t>(classes));
      for (Index i = 0; i < n; ++i) {
        const Sample sample = data->at(i);
        const Tensor pixels = sample[0].cast(DType::f32);
        const auto label = static_cast<size_t>(sample[1].values<int64_t>()[0]);
        ++counts[label];
        const auto x = pixels.values<float>();
        right += best_class({x.begin(), x.end()}, classes, channels, height, width) == label;
      }
      const auto optimum = data->optimum();
      ASSERT_TRUE(optimum);
      EXPECT_EQ(optimum->metric, "accuracy");
      const double p = optimum->value, error = std::sqrt(p * (1 - p) / double(n));
      EXPECT_NEAR(double(right) / double(n), p, 5 * error) << type << ", strength " << strength;
      for (const double count : counts) EXPECT_NEAR(count, double(n) / 7, 5 * std::sqrt(double(n) * 6 / 49));
    }
}

TEST(Generators, TextHasItsEntropy) {
  const Index n = 2000, length = 100, symbols = 12;
  const auto data = generate("generated-text", {{"symbols", symbols}, {"length", length}, {"size", n}});
  // Count pairs; the entropy of the counted chain tends to the source's.
  std::vector<double> pairs(static_cast<size_t>(symbols * symbols)), singles(static_cast<size_t>(symbols));
  for (Index i = 0; i < n; ++i) {
    const Sample sample = data->at(i);
    const auto text = sample[0].values<uint8_t>(), next = sample[1].values<uint8_t>();
    for (size_t t = 0; t < text.size(); ++t) {
      ASSERT_LT(text[t], symbols);
      EXPECT_TRUE(t == 0 || text[t] == next[t - 1]);
      ++pairs[text[t] * static_cast<size_t>(symbols) + next[t]];
      ++singles[text[t]];
    }
  }
  const double total = double(n * length);
  double loss = 0, square = 0;
  for (size_t a = 0; a < singles.size(); ++a)
    for (size_t b = 0; b < singles.size(); ++b)
      if (const double count = pairs[a * singles.size() + b]; count > 0) {
        const double bits = -std::log2(count / singles[a]);
        loss += count / total * bits;
        square += count / total * bits * bits;
      }
  const double h = data->optimum()->value;
  EXPECT_GT(h, 0.5);
  EXPECT_LT(h, std::log2(double(symbols)));
  // The counted entropy lies below by (parameters) / (2 n ln 2), and scatters; successive losses are nearly
  // independent.
  const double bias = double(symbols * (symbols - 1)) / (2 * total * std::numbers::ln2);
  EXPECT_NEAR(loss + bias, h, 5 * 1.5 * std::sqrt((square - loss * loss) / total));
}

TEST(Generators, FlatTextHasFullEntropy) {
  EXPECT_NEAR(generate("generated-text", {{"sharpness", 0.0}, {"symbols", int64_t{16}}})->optimum()->value, 4, 1e-12);
}

// Every symbol of a sample is drawn from the stationary distribution, the first as well as the last.
TEST(Generators, TextIsStationary) {
  const Index n = 20000, symbols = 5;
  const auto data = generate("generated-text", {{"symbols", symbols}, {"length", int64_t{30}}, {"size", n}});
  std::vector<double> first(5), last(5);
  for (Index i = 0; i < n; ++i) {
    const Sample sample = data->at(i);
    ++first[sample[0].values<uint8_t>()[0]];
    ++last[sample[1].values<uint8_t>()[29]];
  }
  for (size_t a = 0; a < 5; ++a) {
    const double p = (first[a] + last[a]) / (2 * double(n));
    EXPECT_NEAR(first[a], last[a], 5 * std::sqrt(2 * double(n) * p * (1 - p)));
  }
}

// In the logarithm of the density the variance is the one that target 0 says; counts are rounded, so within
// sqrt of that: a cell of 50 +- 1/2 moves its logarithm by about 1/100.
TEST(Generators, VolumesShowTheirTargets) {
  const auto data = generate("generated-volumes", {{"side", int64_t{16}}, {"channels", int64_t{3}}});
  for (Index i = 0; i < 10; ++i) {
    const Sample sample = data->at(i);
    const auto counts = sample[0].values<uint16_t>();
    const auto target = sample[1].values<float>();
    const size_t cells = 16 * 16 * 16;
    for (size_t c = 0; c < 3; ++c) {
      double mean = 0, square = 0;
      for (size_t p = 0; p < cells; ++p) {
        const double g = std::log(std::max(0.5, double(counts[c * cells + p])));
        mean += g / double(cells);
        square += g * g / double(cells);
      }
      const double growth = 1 - 0.15 * double(c) * (1 + target[3]) / 2, amplitude = (0.6 + 0.3 * target[0]) * growth;
      EXPECT_NEAR(std::sqrt(square - mean * mean), amplitude, 0.02) << "sample " << i << " channel " << c;
      EXPECT_NEAR(mean, std::log(50) - amplitude * amplitude / 2, 0.02);
    }
    for (const float t : target) EXPECT_TRUE(t >= -1 && t < 1);
  }
}

TEST(Generators, VolumesAsLogarithmsAreThoseOfTheCounts) {
  const Attributes values{{"side", int64_t{16}}, {"channels", int64_t{2}}};
  Attributes logarithms = values;
  logarithms.set("values", std::string("logarithm"));
  const Sample a = generate("generated-volumes", values)->at(3), b = generate("generated-volumes", logarithms)->at(3);
  for (size_t i = 0; i < a[0].values<uint16_t>().size(); ++i)
    EXPECT_NEAR(b[0].values<float>()[i], std::log((1.0 + a[0].values<uint16_t>()[i]) / 51), 1e-6);
}

// The matched filter, written down once more, is right as often as the generator says: 4000 samples, four deviations.
TEST(Generators, StrainHasTheAccuracyOfItsMatchedFilter) {
  const double strength = 2;
  const auto data = generate("generated-strain", {{"length", int64_t{256}}, {"strength", strength}, {"cycles", 8.0}});
  const double best = data->optimum()->value;
  EXPECT_NEAR(best, 0.841344746068543, 1e-12);  // Phi(1)
  std::vector<double> h;
  double energy = 0;
  for (int t = 0; t < 192; ++t) {
    const double tau = (192 - t) / 192.0;
    h.push_back(std::pow(tau, -0.25) * std::cos(2 * 3.14159265358979323846 * 8 * std::pow(tau, 0.625)));
    energy += h.back() * h.back();
  }
  const int samples = 4000;
  int right = 0;
  for (int i = 0; i < samples; ++i) {
    const Sample sample = data->at(i);
    double product = 0;
    for (size_t t = 0; t < h.size(); ++t)
      product += h[t] * strength / std::sqrt(energy) * static_cast<double>(sample[0].values<float>()[t]);
    right += (product > strength * strength / 2) == (sample[1].values<int64_t>()[0] == 1);
  }
  EXPECT_NEAR(right / double(samples), best, 4 * std::sqrt(best * (1 - best) / samples));
  EXPECT_FALSE(generate("generated-strain", {{"jitter", int64_t{5}}})->optimum());
}

TEST(Generators, ClimateMarksItsEvents) {
  const auto data = generate("generated-climate", {{"channels", int64_t{4}}, {"strength", 50.0}});
  double events[3] = {};
  for (Index i = 0; i < 40; ++i) {
    const Sample sample = data->at(i);
    const auto field = sample[0].values<float>();
    const auto mask = sample[1].values<uint8_t>();
    const size_t plane = mask.size();
    for (size_t c = 0; c < 4; ++c) {
      double square = 0;
      for (size_t p = 0; p < plane; ++p) {
        const double x = field[c * plane + p];
        ASSERT_LT(mask[p], 3);
        // The weather itself stays within the sum of its amplitudes, far below the shift.
        EXPECT_EQ(std::abs(x) > 25, mask[p] != 0) << "sample " << i << " channel " << c << " pixel " << p;
        const double weather = x - std::round(x / 50) * 50;
        square += weather * weather / double(plane);
      }
      EXPECT_NEAR(square, 1, 1e-3);
    }
    for (const uint8_t m : mask) events[m] += 1.0 / double(plane) / 40;
  }
  EXPECT_GT(events[1], 0.005);
  EXPECT_GT(events[2], 0.01);
  EXPECT_GT(events[0], 0.8);
}

}  // namespace
}  // namespace d5
