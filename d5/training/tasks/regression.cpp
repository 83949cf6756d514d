// SPDX-License-Identifier: Apache-2.0
// Numbers. Quality: the root of the mean squared error, in the unit of the targets.
#include <cmath>

#include "d5/training/task.hpp"

namespace d5 {
namespace {

class Regression final : public Evaluation {
 public:
  static constexpr const char* about = "numbers; root of the mean squared error";
  static constexpr const char* loss = "mean-squared-error";
  static constexpr const char* quality = "rmse";
  static constexpr bool larger_is_better = false;
  static constexpr DType target_type = DType::f32;

  explicit Regression(const TensorSpec&) : Evaluation(2) {}
  double value() const override { return own(1) > 0 ? std::sqrt(own(0) / own(1)) : 0; }

 protected:
  void see(const Tensor& scores, const Tensor& target, std::span<const Index>) override {
    const auto y = scores.values<float>(), t = target.values<float>();
    for (size_t i = 0; i < t.size(); ++i) {
      const double difference = static_cast<double>(y[i]) - static_cast<double>(t[i]);
      own(0) += difference * difference;
    }
    own(1) += static_cast<double>(t.size());
  }
};

}  // namespace
D5_REGISTER(tasks, "regression", Regression);
}  // namespace d5
