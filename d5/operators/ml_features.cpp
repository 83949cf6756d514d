// SPDX-License-Identifier: Apache-2.0
// Preparation of features (ai.onnx.ml: ArrayFeatureExtractor, Binarizer, FeatureVectorizer, Imputer, Normalizer,
// Scaler). No gradient.
//   ArrayFeatureExtractor  the elements y of the last axis      Binarizer  1 where x > threshold, else 0
//   FeatureVectorizer      inputs side by side, as floats       Imputer    a value in place of another, by column
//   Normalizer             rows divided by their largest value, sum of |x| or 2-norm (by nothing where that is 0)
//   Scaler                 (x - offset) scale, by column
#include <algorithm>
#include <cmath>

#include "d5/operators/exact.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::initializer_list<DType> feature_types{DType::f32, DType::f64, DType::i32, DType::i64};

std::vector<Parameter> row_parameters() { return {{"shape", "shape of X", "64x16"}}; }
OperatorInput row_input(const Attributes& v, DType type) {
  return {.spec = {type, parse_shape(v.text("shape", ""))}, .differentiable = false};
}

class ArrayFeatureExtractor final : public Exact {
 public:
  explicit ArrayFeatureExtractor(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_type(in[1], {DType::i64}, place);
    const Shape& x = in[0].shape;
    if (x.rank() == 0) throw Error("{} X is a scalar; features are wanted", place);
    std::vector<Index> sizes{x.begin(), x.end() - 1};
    if (sizes.empty()) sizes.push_back(1);  // a list counts as one row
    sizes.push_back(in[1].elements());
    return {output_spec(in[0].dtype, std::move(sizes), place)};
  }

  void forward(Context& c) const override {
    const auto chosen = c.input(1).values<int64_t>();
    const Index features = c.input(0).shape().back(), count = static_cast<Index>(chosen.size());
    with_element_type(c.output(0).dtype(), [&]<class T>() {
      const auto x = c.input(0).values<T>(), y = c.output(0).values<T>();
      for (Index i = 0; i < c.output(0).elements(); ++i) {
        const Index feature = chosen[i % count];
        if (feature < 0 || feature >= features)
          throw Error("{} feature {} is asked for; 0 to {} are there", place, feature, features - 1);
        y[i] = x[i / count * features + feature];
      }
    });
  }

  static std::vector<Parameter> parameters() { return row_parameters(); }
  static OperatorCase describe(const Attributes& v, DType type) {
    const OperatorInput x = row_input(v, type);
    const Index last = x.spec.shape.rank() == 0 ? 0 : x.spec.shape.back() - 1;
    return {.inputs = {x, known_input({last, 0, last / 2})}};
  }
  static std::vector<Attributes> cases() { return {{{"shape", "5"}}, {{"shape", "3x4"}}}; }

 private:
  static constexpr std::string_view place = "[array_feature_extractor]";
};

class Binarizer final : public Exact {
 public:
  explicit Binarizer(const Attributes& a) : threshold_(a.real("threshold", 0)) {
    check_attributes(a, {"threshold"}, place);
  }
  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], feature_types, place);
    return {{in[0].dtype, in[0].shape}};
  }
  void forward(Context& c) const override {
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      const auto x = c.input(0).values<T>(), y = c.output(0).values<T>();
      for (size_t i = 0; i < x.size(); ++i) y[i] = static_cast<T>(static_cast<double>(x[i]) > threshold_);
    });
  }
  static std::vector<Parameter> parameters() { return row_parameters(); }
  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {row_input(v, type)}, .attributes = {{"threshold", 0.25}}};
  }
  static std::vector<Attributes> cases() { return {{{"shape", "3x4x5"}}}; }

 private:
  static constexpr std::string_view place = "[binarizer]";
  double threshold_;
};

class FeatureVectorizer final : public Exact {
 public:
  explicit FeatureVectorizer(const Attributes& a) { check_attributes(a, {"inputdimensions"}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, std::max<size_t>(1, in.size()), std::max<size_t>(1, in.size()), place);
    Index columns = 0;
    for (const TensorSpec& spec : in) {
      check_type(spec, feature_types, place);
      if (spec.shape.rank() < 1 || spec.shape.rank() > 2 || rows(spec.shape) != rows(in[0].shape))
        throw Error("{} inputs are {} and {}; as many rows are wanted of each", place, to_string(in[0].shape),
                    to_string(spec.shape));
      columns += spec.shape.back();
    }
    return {output_spec(DType::f32, {rows(in[0].shape), columns}, place)};
  }
  void forward(Context& c) const override {
    const auto y = c.output(0).values<double>();
    const Index columns = c.output(0).shape()[1];
    Index first = 0;
    for (const Tensor& input : c.inputs) {
      const Tensor x = input.cast(DType::f64);
      const Index own = x.shape().back();
      for (Index i = 0; i < x.elements(); ++i) y[i / own * columns + first + i % own] = x.values<double>()[i];
      first += own;
    }
  }
  static std::vector<Parameter> parameters() { return row_parameters(); }
  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {row_input(v, type), row_input(v, type)}};
  }
  static std::vector<Attributes> cases() { return {{{"shape", "3x4"}}}; }

 private:
  static constexpr std::string_view place = "[feature_vectorizer]";
  static Index rows(const Shape& x) { return x.rank() == 1 ? 1 : x[0]; }
};

// One value for all columns, or one for each.
double of_column(const std::vector<double>& list, size_t column) { return list[list.size() == 1 ? 0 : column]; }
void check_columns(const std::vector<double>& list, const Shape& x, const char* name, std::string_view place) {
  if (list.size() == 1 || (x.rank() > 0 && static_cast<Index>(list.size()) == x.back())) return;
  throw Error("{} {} has {} values; one, or one for each column of {}, is wanted", place, name, list.size(),
              to_string(x));
}

class Imputer final : public Exact {
 public:
  explicit Imputer(const Attributes& a)
      : whole_(a.has("imputed_value_int64s")), values_(a.reals("imputed_value_floats")) {
    check_attributes(
        a, {"imputed_value_floats", "imputed_value_int64s", "replaced_value_float", "replaced_value_int64"}, place);
    if (whole_)
      for (const int64_t value : a.integers("imputed_value_int64s")) values_.push_back(static_cast<double>(value));
    replaced_ = whole_ ? static_cast<double>(a.integer("replaced_value_int64", 0)) : a.real("replaced_value_float", 0);
  }
  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], feature_types, place);
    check_columns(values_, in[0].shape, "imputed_value", place);
    return {{in[0].dtype, in[0].shape}};
  }
  void forward(Context& c) const override {
    const size_t columns = c.input(0).shape().rank() == 0 ? 1 : static_cast<size_t>(c.input(0).shape().back());
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      const auto x = c.input(0).values<T>(), y = c.output(0).values<T>();
      for (size_t i = 0; i < x.size(); ++i) {
        const auto value = static_cast<double>(x[i]);
        const bool same = std::isnan(replaced_) ? std::isnan(value) : value == replaced_;
        y[i] = same ? static_cast<T>(of_column(values_, i % columns)) : x[i];
      }
    });
  }
  static std::vector<Parameter> parameters() { return row_parameters(); }
  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {row_input(v, type)},
            .attributes = {{"imputed_value_floats", std::vector<double>{7}}, {"replaced_value_float", 1.0}}};
  }
  static std::vector<Attributes> cases() { return {{{"shape", "3x4"}}}; }

 private:
  static constexpr std::string_view place = "[imputer]";
  bool whole_;
  std::vector<double> values_;
  double replaced_;
};

class Normalizer final : public Operator {
 public:
  explicit Normalizer(const Attributes& a) : norm_(a.text("norm", "MAX")) {
    check_attributes(a, {"norm"}, place);
    if (norm_ != "MAX" && norm_ != "L1" && norm_ != "L2")
      throw UsageError("{} norm is '{}'; legal: MAX, L1, L2", place, norm_);
  }
  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], feature_types, place);
    if (in[0].shape.rank() < 1 || in[0].shape.rank() > 2)
      throw Error("{} X is {}; rows are wanted", place, to_string(in[0].shape));
    return {{DType::f32, in[0].shape}};
  }
  void forward(Context& c) const override {
    const Tensor x = c.input(0).cast(DType::f64);
    const auto columns = static_cast<size_t>(x.shape().back());
    const auto y = c.output(0).values<double>();
    for (size_t first = 0; first < y.size(); first += columns) {
      const auto row = x.values<double>().subspan(first, columns);
      double norm = norm_ == "MAX" ? *std::ranges::max_element(row) : 0;
      for (const double value : row) norm += norm_ == "L1" ? std::abs(value) : norm_ == "L2" ? value * value : 0;
      if (norm_ == "L2") norm = std::sqrt(norm);
      for (size_t i = 0; i < columns; ++i) y[first + i] = norm == 0 ? row[i] : row[i] / norm;
    }
  }
  Rounding rounding(SpecSpan in, Pass, size_t) const override {
    return {.terms = static_cast<double>(in[0].shape.back()), .units = 4};
  }
  Tensor magnitude(const Context& c, Pass, size_t) const override { return c.output(0); }
  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "64x16"}, {"norm", "MAX, L1 or L2", "L2"}};
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    OperatorInput x = row_input(v, type);
    x.low = 0.5;
    return {.inputs = {x}, .attributes = {{"norm", v.text("norm", "")}}};
  }
  static std::vector<Attributes> cases() {
    return {{{"shape", "3x4"}}, {{"shape", "5"}, {"norm", "L1"}}, {{"shape", "2x3"}, {"norm", "MAX"}}};
  }

 private:
  static constexpr std::string_view place = "[normalizer]";
  std::string norm_;
};

class Scaler final : public Operator {
 public:
  explicit Scaler(const Attributes& a) : offset_(a.reals("offset", {0})), scale_(a.reals("scale", {1})) {
    check_attributes(a, {"offset", "scale"}, place);
  }
  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], feature_types, place);
    check_columns(offset_, in[0].shape, "offset", place);
    check_columns(scale_, in[0].shape, "scale", place);
    return {{DType::f32, in[0].shape}};
  }
  void forward(Context& c) const override {
    scale(c, c.output(0), [](double x, double o) { return x - o; });
  }
  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 1, .units = 2}; }
  Tensor magnitude(const Context& c, Pass, size_t) const override {
    Tensor sizes(DType::f64, c.output(0).shape());
    scale(c, sizes, [](double x, double o) { return std::abs(x) + std::abs(o); });
    return sizes;
  }
  static std::vector<Parameter> parameters() { return row_parameters(); }
  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {row_input(v, type)},
            .attributes = {{"offset", std::vector<double>{0.5}}, {"scale", std::vector<double>{2}}}};
  }
  static std::vector<Attributes> cases() { return {{{"shape", "3x4"}}}; }

 private:
  static constexpr std::string_view place = "[scaler]";
  template <class F>
  void scale(const Context& c, const Tensor& to, F&& moved) const {
    const Tensor x = c.input(0).cast(DType::f64);
    const size_t columns = x.shape().rank() == 0 ? 1 : static_cast<size_t>(x.shape().back());
    const auto y = to.values<double>();
    for (size_t i = 0; i < y.size(); ++i)
      y[i] = moved(x.values<double>()[i], of_column(offset_, i % columns)) * of_column(scale_, i % columns);
  }
  std::vector<double> offset_, scale_;
};

}  // namespace
D5_REGISTER(operators, "ai.onnx.ml:ArrayFeatureExtractor", ArrayFeatureExtractor);
D5_REGISTER(operators, "ai.onnx.ml:Binarizer", Binarizer);
D5_REGISTER(operators, "ai.onnx.ml:FeatureVectorizer", FeatureVectorizer);
D5_REGISTER(operators, "ai.onnx.ml:Imputer", Imputer);
D5_REGISTER(operators, "ai.onnx.ml:Normalizer", Normalizer);
D5_REGISTER(operators, "ai.onnx.ml:Scaler", Scaler);
}  // namespace d5
