// SPDX-License-Identifier: Apache-2.0
// Linear models (ai.onnx.ml: LinearRegressor, LinearClassifier) of rows of features. No gradient.
//   s = W x + b      y = transform(s)      the class is that of the largest y; two classes may have one score, s of the
//   second, and then the scores are -s and s
#include <algorithm>
#include <cmath>

#include "d5/operators/checks.hpp"
#include "d5/operators/ml_scores.hpp"

namespace d5 {
namespace {

constexpr std::initializer_list<DType> feature_types{DType::f32, DType::f64, DType::i32, DType::i64};

class LinearModel : public Operator {
 public:
  LinearModel(const Attributes& a, std::string_view place)
      : place_(place),
        transform_(parse_transform(a.text("post_transform", "NONE"), place)),
        weights_(a.reals("coefficients")),
        bias_(a.reals("intercepts")) {}

  Cost cost(SpecSpan in, Pass) const override {
    const double rows = in[0].shape.rank() == 2 ? static_cast<double>(in[0].shape[0]) : 1;
    return {2 * rows * static_cast<double>(weights_.size()), in[0].bytes() + input_bytes(infer(in))};
  }
  Rounding rounding(SpecSpan in, Pass, size_t) const override {
    return {.terms = static_cast<double>(in[0].shape.back()) + 1, .units = 16};
  }
  Tensor magnitude(const Context& c, Pass, size_t index) const override {
    if (c.output(index).dtype() == DType::string) return {};
    const Tensor x = c.input(0).cast(DType::f64);
    double top = 1, sum = 1;
    for (const double value : x.values<double>()) top = std::max(top, std::abs(value));
    for (const double w : weights_) sum += std::abs(w);
    for (const double b : bias_) sum += std::abs(b);
    Tensor scale(DType::f64, c.output(index).shape());
    std::ranges::fill(scale.values<double>(), top * sum);
    return scale;
  }

 protected:
  struct Rows {
    Index count, features;
  };
  Rows rows(SpecSpan in, Index targets) const {
    check_inputs(in, 1, 1, place_);
    check_type(in[0], feature_types, place_);
    const Shape& x = in[0].shape;
    if (x.rank() < 1 || x.rank() > 2) throw Error("{} X is {}; rows of features are wanted", place_, to_string(x));
    const Rows r{x.rank() == 2 ? x[0] : 1, x.back()};
    Index wanted = 0;  // a product that is too large is no number of coefficients
    if (__builtin_mul_overflow(targets, r.features, &wanted) || static_cast<Index>(weights_.size()) != wanted)
      throw Error("{} there are {} coefficients; {} results of {} features want one for each pair", place_,
                  weights_.size(), targets, r.features);
    if (!bias_.empty() && static_cast<Index>(bias_.size()) != targets)
      throw Error("{} there are {} intercepts for {} results", place_, bias_.size(), targets);
    return r;
  }

  std::vector<double> scores(const Tensor& x, Index row, Index targets) const {
    const Index features = x.shape().back();
    const auto from = x.values<double>();
    std::vector<double> sums(static_cast<size_t>(targets));
    for (Index t = 0; t < targets; ++t) {
      sums[t] = bias_.empty() ? 0 : bias_[t];
      for (Index f = 0; f < features; ++f) sums[t] += weights_[t * features + f] * from[row * features + f];
    }
    return sums;
  }

  static std::vector<double> pattern(size_t count) {
    std::vector<double> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = (static_cast<double>(i * 7 % 11) - 5) / 8;
    return values;
  }

  std::string_view place_;
  Transform transform_;
  std::vector<double> weights_, bias_;
};

class LinearRegressor final : public LinearModel {
 public:
  explicit LinearRegressor(const Attributes& a)
      : LinearModel(a, "[linear_regressor]"), targets_(a.integer("targets", 1)) {
    check_attributes(a, {"coefficients", "intercepts", "post_transform", "targets"}, place_);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    return {output_spec(DType::f32, {rows(in, targets_).count, targets_}, place_)};
  }
  void forward(Context& c) const override {
    const Tensor x = c.input(0).cast(DType::f64);
    const auto y = c.output(0).values<double>();
    for (Index row = 0; row < c.output(0).shape()[0]; ++row) {
      auto sums = scores(x, row, targets_);
      apply_transform(transform_, sums);
      std::ranges::copy(sums, y.begin() + row * targets_);
    }
  }

  static std::vector<Parameter> parameters() {
    return {{"rows", "rows of X", 64}, {"features", "numbers of a row", 16}, {"targets", "results of a row", 3}};
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    const Index features = v.integer("features", 1), targets = v.integer("targets", 1);
    return {.inputs = {{.spec = {type, {v.integer("rows", 1), features}}, .differentiable = false}},
            .attributes = {{"targets", targets},
                           {"coefficients", pattern(static_cast<size_t>(features * targets))},
                           {"intercepts", pattern(static_cast<size_t>(targets))}}};
  }
  static std::vector<Attributes> cases() { return {{{"rows", 3}, {"features", 4}}}; }

 private:
  Index targets_;
};

class LinearClassifier final : public LinearModel {
 public:
  explicit LinearClassifier(const Attributes& a)
      : LinearModel(a, "[linear_classifier]"), labels_(a, "classlabels_ints", "classlabels_strings", place_) {
    check_attributes(
        a, {"classlabels_ints", "classlabels_strings", "coefficients", "intercepts", "multi_class", "post_transform"},
        place_);
    results_ = bias_.empty() ? static_cast<Index>(labels_.size()) : static_cast<Index>(bias_.size());
    if (results_ != static_cast<Index>(labels_.size()) && !(results_ == 1 && labels_.size() == 2))
      throw UsageError("{} {} intercepts for {} labels", place_, results_, labels_.size());
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    const Index count = rows(in, results_).count;
    return {{labels_.type(), {count}}, output_spec(DType::f32, {count, static_cast<Index>(labels_.size())}, place_)};
  }
  void forward(Context& c) const override {
    const Tensor x = c.input(0).cast(DType::f64);
    const auto classes = static_cast<Index>(labels_.size());
    const Index count = x.shape().rank() == 2 ? x.shape()[0] : 1;
    for (Index row = 0; row < count; ++row) {
      auto sums = scores(x, row, results_);
      if (results_ == 1 && classes == 2) sums.insert(sums.begin(), -sums[0]);
      apply_transform(transform_, sums);
      const auto best = static_cast<size_t>(std::ranges::max_element(sums) - sums.begin());
      if (c.output(0).present()) labels_.store(c.output(0), row, best);
      if (c.output(1).present()) std::ranges::copy(sums, c.output(1).values<double>().begin() + row * classes);
    }
  }

  static std::vector<Parameter> parameters() {
    return {{"rows", "rows of X", 64}, {"features", "numbers of a row", 16}, {"classes", "classes", 3}};
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    const Index features = v.integer("features", 1), classes = v.integer("classes", 2);
    std::vector<Index> labels;
    for (Index i = 0; i < classes; ++i) labels.push_back(10 * i);
    return {.inputs = {{.spec = {type, {v.integer("rows", 1), features}}, .differentiable = false}},
            .attributes = {{"classlabels_ints", labels},
                           {"post_transform", "SOFTMAX"},
                           {"coefficients", pattern(static_cast<size_t>(features * classes))},
                           {"intercepts", pattern(static_cast<size_t>(classes))}},
            .outputs = 2};
  }
  static std::vector<Attributes> cases() { return {{{"rows", 3}, {"features", 4}}}; }

 private:
  ClassLabels labels_;
  Index results_;
};

}  // namespace
D5_REGISTER(operators, "ai.onnx.ml:LinearRegressor", LinearRegressor);
D5_REGISTER(operators, "ai.onnx.ml:LinearClassifier", LinearClassifier);
}  // namespace d5
