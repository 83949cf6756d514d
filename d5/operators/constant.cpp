// SPDX-License-Identifier: Apache-2.0
// Tensors that are known before the run; none has a gradient.
//   Constant         the attribute: value (a tensor), or value_float, value_floats, value_int, value_ints,
//   value_string,
//                    value_strings
//   ConstantOfShape  the one element of the attribute `value`, in the shape that the input holds; without it f32 zeros
//   Shape            the sizes of X from axis `start` to axis `end`, not included
//   Size             the number of elements of X
#include <algorithm>
#include <limits>

#include "d5/core/rng.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

class WithoutGradient : public Operator {
 public:
  Cost cost(SpecSpan in, Pass) const override { return {0, input_bytes(in) + input_bytes(infer(in))}; }
  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }
};

class Constant final : public WithoutGradient {
 public:
  explicit Constant(const Attributes& a) {
    check_attributes(
        a, {"value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings"}, place);
    if (a.values().size() != 1) throw Error("{} {} attributes are given; one is wanted", place, a.values().size());
    const auto list = [](auto values) { return Shape{static_cast<Index>(values.size())}; };
    if (a.has("value")) value_ = *a.tensor("value");
    if (a.has("value_float")) value_ = Tensor::scalar(a.real("value_float", 0), DType::f32);
    if (a.has("value_int")) value_ = Tensor::from<int64_t>({}, {a.integer("value_int", 0)});
    if (a.has("value_string")) value_ = Tensor::from<std::string>({}, {a.text("value_string", "")});
    const auto reals = a.has("value_floats") ? a.reals("value_floats") : std::vector<double>();
    if (a.has("value_floats")) value_ = Tensor::from<double>(list(reals), reals).cast(DType::f32);
    const auto integers = a.has("value_ints") ? a.integers("value_ints") : std::vector<int64_t>();
    if (a.has("value_ints")) value_ = Tensor::from<int64_t>(list(integers), integers);
    if (!a.has("value_strings")) return;
    const auto* texts = std::get_if<std::vector<std::string>>(&a.values().at("value_strings"));
    if (!texts)
      throw UsageError("{} value_strings is '{}'; a list of words is wanted", place,
                       to_string(a.values().at("value_strings")));
    value_ = Tensor::from<std::string>(list(*texts), *texts);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 0, 0, place);
    return {known_spec(value_)};
  }

  void forward(Context& c) const override {
    c.output(0).copy_from(value_.dtype() == DType::string ? value_ : value_.cast(compute_dtype(value_.dtype())));
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of the constant; its values are random", "64x64x3x3"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    Tensor value(type, parse_shape(v.text("shape", "")));
    fill_integers(value, Rng(17), type == DType::boolean ? 0 : -4, type == DType::boolean ? 1 : 4);
    return {.attributes = {{"value", std::make_shared<const Tensor>(value)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "1"}}, {{"shape", "scalar"}}, {{"shape", "3x5"}}, {{"shape", "16x16x3x3"}}};
  }

 private:
  static constexpr std::string_view place = "[constant]";
  Tensor value_;
};

class ConstantOfShape final : public WithoutGradient {
 public:
  explicit ConstantOfShape(const Attributes& a) {
    check_attributes(a, {"value"}, place);
    value_ = a.has("value") ? *a.tensor("value") : Tensor::scalar(0, DType::f32);
    if (value_.elements() != 1) throw Error("{} value has {} elements; one is wanted", place, value_.elements());
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    return with_known(*this, in, {output_spec(value_.dtype(), known_integers(in[0], "the shape", place), place)});
  }

  void forward(Context& c) const override {
    with_compute_type(value_.dtype(), [&]<class T>() {
      std::ranges::fill(c.output(0).values<T>(), value_.cast(dtype_of<T>::value).template values<T>()[0]);
    });
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of the result, as in 2x3", "64x256x14x14"}, {"value", "what it is filled with", 1.0}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {list_input(v, "shape")},
            .attributes = {
                {"value", std::make_shared<const Tensor>(Tensor::scalar(v.real("value", 1), type).reshaped({1}))}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "1"}},
            {{"shape", "none"}, {"value", 3}},
            {{"shape", "3x5x2"}, {"value", -2}},
            {{"shape", "16x16x14"}}};
  }

 private:
  static constexpr std::string_view place = "[constant_of_shape]";
  Tensor value_;
};

class ShapeOf final : public WithoutGradient {
 public:
  explicit ShapeOf(const Attributes& a) : start_(a.integer("start", 0)), end_(a.integer("end", most)) {
    check_attributes(a, {"start", "end"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    return {known_spec(sizes(in[0].shape))};
  }

  void forward(Context& c) const override {
    std::ranges::copy(sizes(c.input(0).shape()), c.output(0).values<int64_t>().begin());
  }

  // No element of X is read.
  Cost cost(SpecSpan in, Pass) const override { return {0, infer(in)[0].bytes()}; }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "32x64x56x56"},
            {"start", "first axis", 0},
            {"end", "axis to stop at, not included", 64}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .differentiable = false}},
            .attributes = {{"start", v.integer("start", 0)}, {"end", v.integer("end", 64)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "7"}},
            {{"shape", "2x3x4"}, {"start", 1}},
            {{"shape", "2x3x4x5"}, {"start", -3}, {"end", -1}},
            {{"shape", "8x16x14x14"}}};
  }

 private:
  static constexpr std::string_view place = "[shape]";
  static constexpr Index most = std::numeric_limits<Index>::max();

  // Axes out of range are clamped, as ONNX says.
  std::vector<Index> sizes(const Shape& x) const {
    const auto rank = static_cast<Index>(x.rank());
    const auto clamp = [&](Index axis) { return std::clamp<Index>(axis < 0 ? axis + rank : axis, 0, rank); };
    const Index first = clamp(start_), last = std::max(first, clamp(end_));
    return {x.begin() + first, x.begin() + last};
  }

  Index start_, end_;
};

class Size final : public WithoutGradient {
 public:
  explicit Size(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    return {known_spec(Tensor::from<int64_t>({}, {in[0].elements()}))};
  }

  void forward(Context& c) const override { c.output(0).values<int64_t>()[0] = c.input(0).elements(); }

  Cost cost(SpecSpan, Pass) const override { return {0, 8}; }

  static std::vector<Parameter> parameters() { return {{"shape", "shape of X", "32x64x56x56"}}; }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .differentiable = false}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "scalar"}}, {{"shape", "2x3x4"}}, {{"shape", "8x16x14"}}};
  }

 private:
  static constexpr std::string_view place = "[size]";
};

}  // namespace
D5_REGISTER(operators, "Constant", Constant);
D5_REGISTER(operators, "ConstantOfShape", ConstantOfShape);
D5_REGISTER(operators, "Shape", ShapeOf);
D5_REGISTER(operators, "Size", Size);
}  // namespace d5
