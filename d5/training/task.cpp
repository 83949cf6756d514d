// SPDX-License-Identifier: Apache-2.0
#include "d5/training/task.hpp"

#include <nlohmann/json.hpp>

namespace d5 {

void Evaluation::add(double loss, const Tensor& scores, const Tensor& target, std::span<const Index> samples) {
  sums_[0] += loss * static_cast<double>(samples.size());
  sums_[1] += static_cast<double>(samples.size());
  see(scores, target, samples);
}

nlohmann::json Evaluation::report() const { return nlohmann::json::object(); }

void Evaluation::reset() {
  sums_.assign(sums_.size(), 0.0);
  forget();
}

std::string task_of_loss(const std::string& loss) {
  if (loss == "token-cross-entropy") return "language-model";
  if (loss == "mean-squared-error" || loss == "binary-cross-entropy") return "regression";
  return "classification";
}

}  // namespace d5
