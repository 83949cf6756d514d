// SPDX-License-Identifier: Apache-2.0
// Images like those of a set, by a generator against a discriminator (training/gan.hpp). Quality: Fréchet's distance
// between two normal distributions with the means and deviations that real and generated images have in each pixel, by
// pixel:
//   sqrt(mean over pixels of (mean_r - mean_g)^2 + (deviation_r - deviation_g)^2)
// What pixels have to do with each other it does not see: a small one is needed, and not enough.
#include <algorithm>
#include <cmath>

#include "d5/training/task.hpp"

namespace d5 {
namespace {

class Gan final : public Evaluation {
 public:
  static constexpr const char* about = "images like those of a set; distance of means and deviations of the pixels";
  static constexpr const char* loss = "binary-cross-entropy";
  static constexpr const char* quality = "frechet";
  static constexpr bool larger_is_better = false;

  explicit Gan(const TensorSpec& images) : Evaluation(4 * values_of(images)), pixels_(values_of(images)) {}

  double value() const override {
    const auto n = static_cast<double>(samples());
    if (n == 0) return 0;
    double sum = 0;
    for (size_t p = 0; p < pixels_; ++p) {
      const double made = own(4 * p) / n, real = own(4 * p + 2) / n;
      const double made_deviation = std::sqrt(std::max(0.0, own(4 * p + 1) / n - made * made));
      const double real_deviation = std::sqrt(std::max(0.0, own(4 * p + 3) / n - real * real));
      sum += (made - real) * (made - real) + (made_deviation - real_deviation) * (made_deviation - real_deviation);
    }
    return std::sqrt(sum / static_cast<double>(pixels_));
  }

 protected:
  // Scores are generated images, the target real ones.
  void see(const Tensor& scores, const Tensor& target, std::span<const Index>) override {
    const auto made = scores.values<float>(), real = target.values<float>();
    for (size_t i = 0; i < made.size(); ++i) {
      const size_t first = 4 * (i % pixels_);
      const double g = made[i], r = real[i];
      own(first) += g;
      own(first + 1) += g * g;
      own(first + 2) += r;
      own(first + 3) += r * r;
    }
  }

 private:
  static size_t values_of(const TensorSpec& images) {
    return static_cast<size_t>(images.elements() / std::max<Index>(1, images.shape[0]));
  }
  size_t pixels_;
};

}  // namespace
D5_REGISTER(tasks, "gan", Gan);
}  // namespace d5
