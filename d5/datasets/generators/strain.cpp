// SPDX-License-Identifier: Apache-2.0
// Windows like those of a whitened strain of LIGO: white noise of deviation 1, and in half of them a chirp, two bodies
// that spiral into each other, to lowest order (Blanchet, 2014). With tau the time to the merger, from 1 at the
// beginning of the window to 0,
//   h = A tau^(-1/4) cos(2 pi cycles tau^(5/8)),   |h| = strength, what a matched filter sees in units of the noise
// The merger is at three quarters of the window, up to `jitter` values earlier. Where its time is known (jitter 0) the
// best decision is <x, h> > |h|^2 / 2, right with probability Phi(strength / 2).
#include <cmath>
#include <numbers>

#include "d5/datasets/generators.hpp"

namespace d5 {
namespace {

constexpr const char* place = "[generated-strain]";

class Strain final : public Generator {
 public:
  static constexpr const char* about = "noise like LIGO's whitened strain, half of it with a chirp of known strength";
  static std::vector<DataOption> options() {
    return with_common({{"length", "values of a window", int64_t{1024}},
                        {"strength", "of the chirp, as a matched filter sees it", 4.0},
                        {"cycles", "of the chirp", 20.0},
                        {"jitter", "the merger is up to so many values earlier", int64_t{0}}},
                       20000);
  }

  explicit Strain(const Attributes& values) : Generator("generated-strain", values) {
    length_ = integer_in(values, "length", 16, 1 << 24, place);
    strength_ = real_in(values, "strength", 0, 1000, place);
    cycles_ = real_in(values, "cycles", 0.5, 1e6, place);
    merger_ = 3 * length_ / 4;
    jitter_ = integer_in(values, "jitter", 0, merger_ / 2, place);
    fields_ = {{"strain", DType::f32, Shape{length_}, {}}, {"label", DType::i64, Shape{}, 2}};
    if (jitter_ == 0) known_ = chirp(merger_);
  }

  void read(Index i, Sample& into) const override {
    const Rng rng = of_sample(i);
    const auto label = static_cast<int64_t>(rng.below(0, 2));
    written(into, 1).values<int64_t>()[0] = label;
    const auto x = written(into, 0).values<float>();
    fill_normal(x, rng);
    if (label == 0) return;
    const auto earlier = static_cast<Index>(rng.below(1, static_cast<uint64_t>(jitter_ + 1)));
    const std::vector<float> other = jitter_ == 0 ? std::vector<float>() : chirp(merger_ - earlier);
    const std::vector<float>& signal = jitter_ == 0 ? known_ : other;
    for (size_t t = 0; t < signal.size(); ++t) x[t] += signal[t];
  }

  std::optional<Optimum> optimum() const override {
    if (jitter_ != 0) return {};
    return Optimum{"accuracy", 0.5 * std::erfc(-strength_ / (2 * std::numbers::sqrt2)), "the matched filter"};
  }

 private:
  std::vector<float> chirp(Index merger) const {
    std::vector<double> exact;
    double energy = 0;
    for (Index t = 0; t < merger; ++t) {
      const double tau = static_cast<double>(merger - t) / static_cast<double>(merger);
      exact.push_back(std::pow(tau, -0.25) * std::cos(2 * std::numbers::pi * cycles_ * std::pow(tau, 0.625)));
      energy += exact.back() * exact.back();
    }
    std::vector<float> scaled;
    for (const double value : exact) scaled.push_back(static_cast<float>(strength_ * value / std::sqrt(energy)));
    return scaled;
  }

  Index length_, merger_, jitter_;
  double strength_, cycles_;
  std::vector<float> known_;
};

}  // namespace
D5_REGISTER(datasets, "generated-strain", Generated<Strain>);
}  // namespace d5
