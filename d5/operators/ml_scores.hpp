// SPDX-License-Identifier: Apache-2.0
// What the classifiers and regressors of ai.onnx.ml do with their scores.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "d5/core/attributes.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {

enum class Transform { none, softmax, logistic, softmax_zero, probit };
Transform parse_transform(const std::string& text, std::string_view place);
// One row of scores. softmax_zero leaves zeros (almost) alone and shares out the rest.
void apply_transform(Transform, std::span<double> scores);

// The labels of a classifier: integers or words, one of both.
class ClassLabels {
 public:
  ClassLabels(const Attributes&, const char* integers, const char* words, std::string_view place);
  size_t size() const { return words_.empty() ? integers_.size() : words_.size(); }
  DType type() const { return words_.empty() ? DType::i64 : DType::string; }
  void store(const Tensor& to, Index at, size_t label) const;

 private:
  std::vector<int64_t> integers_;
  std::vector<std::string> words_;
};

}  // namespace d5
