// SPDX-License-Identifier: Apache-2.0
// Volumes like CosmoFlow's: density[channels x n x n x n] as counts of particles, and four targets in [-1, 1] that
// shape it. In the logarithm of the density lies a sum of waves with power |k|^tilt exp(-(|k| / cutoff)^2):
//   target 0   amplitude:  its variance is exactly (0.6 + 0.3 t0)^2
//   target 1   tilt = -1.5 + t1
//   target 2   cutoff = 3 + 1.5 t2
//   target 3   growth: in channel c the amplitude is multiplied by (1 - 0.15 c (1 + t3) / 2), as at earlier times
//   density = round(mean exp(g - variance / 2)),   mean 50 particles a cell; at most 65535
// Networks learn from ln((1 + density) / (1 + mean)) more easily than from counts: values=logarithm.
#include <algorithm>
#include <cmath>

#include "d5/datasets/generators.hpp"
#include "d5/datasets/waves.hpp"

namespace d5 {
namespace {

constexpr const char* place = "[generated-volumes]";
constexpr int most_waves = 5;
constexpr double mean_count = 50;

class Volumes final : public Generator {
 public:
  static constexpr const char* about =
      "volumes like CosmoFlow's: density at several times, and the four values that shape it";
  static std::vector<DataOption> options() {
    return with_common({{"side", "cells along an edge", int64_t{32}},
                        {"channels", "times of the same volume", int64_t{4}},
                        {"values", "counts (u16), or their logarithm (f32)", std::string("counts")}},
                       10000);
  }

  explicit Volumes(const Attributes& values) : Generator("generated-volumes", values) {
    side_ = integer_in(values, "side", 2 * most_waves + 1, 1024, place);
    channels_ = integer_in(values, "channels", 1, 6, place);
    logarithm_ = one_of(values, "values", {"counts", "logarithm"}, place) == "logarithm";
    fields_ = {{"density", logarithm_ ? DType::f32 : DType::u16, Shape{channels_, side_, side_, side_}, {}},
               {"target", DType::f32, Shape{4}, {}}};
  }

  void read(Index i, Sample& into) const override {
    const Rng rng = of_sample(i);
    const auto target = written(into, 1).values<float>();
    for (size_t t = 0; t < 4; ++t) target[t] = static_cast<float>(2 * rng.uniform(t) - 1);
    const double amplitude = 0.6 + 0.3 * target[0], tilt = -1.5 + target[1], cutoff = 3 + 1.5 * target[2];
    const auto power = [=](double k) { return std::pow(k, tilt) * std::exp(-(k / cutoff) * (k / cutoff)); };
    const std::vector<Index> sizes(3, side_);
    std::vector<float> logarithm(static_cast<size_t>(side_ * side_ * side_));
    fill_waves(logarithm, sizes, most_waves, power, amplitude * amplitude, rng, 4);
    const Tensor& density = written(into, 0);
    uint16_t* counts = logarithm_ ? nullptr : density.values<uint16_t>().data();
    float* logarithms = logarithm_ ? density.values<float>().data() : nullptr;
    for (Index c = 0; c < channels_; ++c) {
      const double growth = 1 - 0.15 * static_cast<double>(c) * (1 + target[3]) / 2;
      const double variance = amplitude * amplitude * growth * growth;
      const auto base = static_cast<float>(std::log(mean_count) - variance / 2);
      for (const float g : logarithm) {
        const auto count =
            static_cast<uint16_t>(std::min(65535.0f, std::exp(base + static_cast<float>(growth) * g) + 0.5f));
        if (logarithm_)
          *logarithms++ = std::log((1 + static_cast<float>(count)) / (1 + static_cast<float>(mean_count)));
        else
          *counts++ = count;
      }
    }
  }

 private:
  Index side_, channels_;
  bool logarithm_;
};

}  // namespace
D5_REGISTER(datasets, "generated-volumes", Generated<Volumes>);
}  // namespace d5
