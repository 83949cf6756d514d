// SPDX-License-Identifier: Apache-2.0
// A class for every pixel. Quality: intersection over union, the mean over classes that occur,
//   IoU_c = |predicted c and true c| / |predicted c or true c|.
#include <nlohmann/json.hpp>

#include "d5/training/task.hpp"

namespace d5 {
namespace {

class Segmentation final : public Evaluation {
 public:
  static constexpr const char* about = "a class for every pixel; mean intersection over union";
  static constexpr const char* loss = "cross-entropy";
  static constexpr const char* quality = "iou";
  static constexpr bool larger_is_better = true;
  static constexpr DType target_type = DType::i64;

  explicit Segmentation(const TensorSpec& scores)
      : Evaluation(3 * static_cast<size_t>(classes_of(scores))), classes_(classes_of(scores)) {}

  void check_target(const Tensor& target, std::span<const Index> samples) const override {
    const auto labels = target.values<int64_t>();
    const size_t pixels = samples.empty() ? 1 : labels.size() / samples.size();
    for (size_t i = 0; i < labels.size(); ++i)
      if (labels[i] < 0 || labels[i] >= classes_)
        throw Error("[train] sample {} has a pixel of class {}; the network has {} classes, 0 to {}",
                    samples[i / pixels], labels[i], classes_, classes_ - 1);
  }

  double value() const override {
    double sum = 0;
    int present = 0;
    for (size_t c = 0; c < static_cast<size_t>(classes_); ++c)
      if (const double united = own(3 * c + 1) + own(3 * c + 2) - own(3 * c); united > 0) {
        sum += own(3 * c) / united;
        ++present;
      }
    return present > 0 ? sum / present : 0;
  }

  nlohmann::json report() const override {
    nlohmann::json each = nlohmann::json::array();
    double right = 0, all = 0;
    for (size_t c = 0; c < static_cast<size_t>(classes_); ++c) {
      const double united = own(3 * c + 1) + own(3 * c + 2) - own(3 * c);
      each.push_back(united > 0 ? nlohmann::json(own(3 * c) / united) : nlohmann::json());
      right += own(3 * c);
      all += own(3 * c + 1);
    }
    return {{"iou_of_classes", each}, {"pixel_accuracy", all > 0 ? right / all : 0}};
  }

 protected:
  void see(const Tensor& scores, const Tensor& target, std::span<const Index> samples) override {
    const auto classes = static_cast<size_t>(classes_);
    const size_t pixels = static_cast<size_t>(target.elements()) / samples.size();
    const float* image = scores.values<float>().data();
    const int64_t* labels = target.values<int64_t>().data();
    for (size_t i = 0; i < samples.size(); ++i, image += classes * pixels, labels += pixels)
      for (size_t p = 0; p < pixels; ++p) {
        size_t best = 0;
        for (size_t c = 1; c < classes; ++c)
          if (image[c * pixels + p] > image[best * pixels + p]) best = c;
        const auto label = static_cast<size_t>(labels[p]);
        own(3 * label + 1) += 1;  // true
        own(3 * best + 2) += 1;   // predicted
        if (best == label) own(3 * label) += 1;
      }
  }

 private:
  static Index classes_of(const TensorSpec& scores) {
    if (scores.shape.rank() < 3)
      throw Error("[segmentation] scores are {}; samples x classes x pixels are wanted", to_string(scores));
    return scores.shape[1];
  }
  Index classes_;
};

}  // namespace
D5_REGISTER(tasks, "segmentation", Segmentation);
}  // namespace d5
