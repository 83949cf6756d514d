// SPDX-License-Identifier: Apache-2.0
// Fields like those of climate segmentation: channels[channels x h x w] of smooth weather with two kinds of events, and
// a mask[h x w] that says where they are: 0 background, 1 cyclone (a disc), 2 river (a band along a parabola). A
// cyclone covers a river. In channel c
//   field = waves of variance 1 + strength (r_c [cyclone] + s_c [river]),   |r_c|, |s_c| = 1 with signs of the set,
// so every pixel of an event is shifted by `strength` deviations in every channel.
#include <cmath>

#include "d5/datasets/generators.hpp"
#include "d5/datasets/waves.hpp"

namespace d5 {
namespace {

constexpr const char* place = "[generated-climate]";
constexpr int most_waves = 6;

class Climate final : public Generator {
 public:
  static constexpr const char* about = "weather in many channels with cyclones and rivers, and a mask of them";
  static std::vector<DataOption> options() {
    return with_common({{"channels", "variables of the weather", int64_t{16}},
                        {"height", "of a field", int64_t{96}},
                        {"width", "of a field", int64_t{144}},
                        {"strength", "of an event, in deviations of the weather", 2.0}},
                       10000);
  }

  explicit Climate(const Attributes& values) : Generator("generated-climate", values) {
    channels_ = integer_in(values, "channels", 1, 64, place);
    height_ = integer_in(values, "height", 2 * most_waves + 1, 1 << 14, place);
    width_ = integer_in(values, "width", 2 * most_waves + 1, 1 << 14, place);
    strength_ = real_in(values, "strength", 0, 100, place);
    fields_ = {{"field", DType::f32, Shape{channels_, height_, width_}, {}},
               {"mask", DType::u8, Shape{height_, width_}, 3}};
  }

  void read(Index i, Sample& into) const override {
    const Rng rng = of_sample(i);
    uint8_t* mask = written(into, 1).values<uint8_t>().data();
    draw_events(rng, mask);
    const Rng signs = of_set("signs");
    const std::vector<Index> sizes{height_, width_};
    const auto plane = static_cast<size_t>(height_ * width_);
    float* field = written(into, 0).values<float>().data();
    const auto power = [](double k) { return 1 / (k * k); };
    for (size_t c = 0; c < static_cast<size_t>(channels_); ++c, field += plane) {
      fill_waves({field, plane}, sizes, most_waves, power, 1, rng, 1000 * (c + 1));
      const auto sign = [&](size_t event) { return signs.bits(2 * c + event) % 2 ? strength_ : -strength_; };
      const float shift[3] = {0, static_cast<float>(sign(0)), static_cast<float>(sign(1))};
      for (size_t p = 0; p < plane; ++p) field[p] += shift[mask[p]];
    }
  }

 private:
  // One to three cyclones and up to one river.
  void draw_events(const Rng& rng, uint8_t* mask) const {
    const auto height = static_cast<double>(height_), width = static_cast<double>(width_);
    const uint64_t cyclones = 1 + rng.below(0, 3);
    const bool river = rng.uniform(1) < 0.7;
    // x = a + b (y / h) + c (y / h)^2, everything in widths
    const double a = rng.uniform(2), b = rng.uniform(3) - 0.5, c = rng.uniform(4) - 0.5,
                 half = 0.02 + 0.02 * rng.uniform(5);
    for (Index y = 0; y < height_; ++y) {
      const double v = (static_cast<double>(y) + 0.5) / height, middle = a + b * v + c * v * v;
      for (Index x = 0; x < width_; ++x) {
        const double u = (static_cast<double>(x) + 0.5) / width;
        mask[y * width_ + x] = river && std::abs(u - middle) < half ? 2 : 0;
      }
    }
    for (uint64_t k = 0; k < cyclones; ++k) {
      const double y0 = height * rng.uniform(6 + 3 * k), x0 = width * rng.uniform(7 + 3 * k);
      const double radius = height * (0.04 + 0.06 * rng.uniform(8 + 3 * k));
      for (Index y = 0; y < height_; ++y)
        for (Index x = 0; x < width_; ++x)
          if (std::hypot(static_cast<double>(y) + 0.5 - y0, static_cast<double>(x) + 0.5 - x0) < radius)
            mask[y * width_ + x] = 1;
    }
  }

  Index channels_, height_, width_;
  double strength_;
};

}  // namespace
D5_REGISTER(datasets, "generated-climate", Generated<Climate>);
}  // namespace d5
