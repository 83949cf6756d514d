// SPDX-License-Identifier: Apache-2.0
// One class of several: the largest score counts.   accuracy = right / all. The confusion matrix has a row for every
// true class; wrong classifications are kept by the number of their sample.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "d5/training/task.hpp"

namespace d5 {
namespace {

constexpr Index most_confused = 1000;  // classes of a confusion matrix
constexpr size_t most_wrong = 1000;    // samples that are named

class Classification final : public Evaluation {
 public:
  static constexpr const char* about = "one class of several; accuracy";
  static constexpr const char* loss = "cross-entropy";
  static constexpr const char* quality = "accuracy";
  static constexpr bool larger_is_better = true;
  static constexpr DType target_type = DType::i64;

  explicit Classification(const TensorSpec& scores)
      : Evaluation(
            1 + static_cast<size_t>(classes_of(scores) <= most_confused ? classes_of(scores) * classes_of(scores) : 0)),
        classes_(classes_of(scores)) {}

  void check_target(const Tensor& target, std::span<const Index> samples) const override {
    const auto labels = target.values<int64_t>();
    for (size_t i = 0; i < labels.size(); ++i)
      if (labels[i] < 0 || labels[i] >= classes_)
        throw Error("[train] sample {} is of class {}; the network has {} classes, 0 to {}", samples[i], labels[i],
                    classes_, classes_ - 1);
  }

  double value() const override { return samples() > 0 ? own(0) / static_cast<double>(samples()) : 0; }
  std::optional<std::pair<Index, Index>> right_of() const override {
    return std::pair{static_cast<Index>(own(0)), samples()};
  }

  nlohmann::json report() const override {
    nlohmann::json result = nlohmann::json::object();
    if (classes_ <= most_confused) {
      auto& rows = result["confusion"] = nlohmann::json::array();
      for (Index t = 0; t < classes_; ++t) {
        rows.push_back(nlohmann::json::array());
        for (Index p = 0; p < classes_; ++p)
          rows.back().push_back(static_cast<Index>(own(static_cast<size_t>(1 + t * classes_ + p))));
      }
    }
    auto& wrong = result["wrong"] = nlohmann::json::array();
    for (const Wrong& one : wrong_) wrong.push_back({one.sample, one.label, one.taken_for});
    return result;
  }

 protected:
  void see(const Tensor& scores, const Tensor& target, std::span<const Index> samples) override {
    const float* row = scores.values<float>().data();
    const auto labels = target.values<int64_t>();
    for (size_t i = 0; i < samples.size(); ++i, row += classes_) {
      const Index best = std::max_element(row, row + classes_) - row;
      if (best == labels[i])
        own(0) += 1;
      else if (wrong_.size() < most_wrong)
        wrong_.push_back({samples[i], labels[i], best});
      if (classes_ <= most_confused) own(static_cast<size_t>(1 + labels[i] * classes_ + best)) += 1;
    }
  }
  void forget() override { wrong_.clear(); }

 private:
  struct Wrong {
    Index sample, label, taken_for;
  };
  static Index classes_of(const TensorSpec& scores) {
    if (scores.shape.rank() != 2)
      throw Error("[classification] scores are {}; samples x classes are wanted", to_string(scores));
    return scores.shape[1];
  }
  Index classes_;
  std::vector<Wrong> wrong_;
};

}  // namespace
D5_REGISTER(tasks, "classification", Classification);
}  // namespace d5
