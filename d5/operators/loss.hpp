// SPDX-License-Identifier: Apache-2.0
// Losses of two tensors of one shape, element by element (mean_squared_error.cpp, binary_cross_entropy.cpp), and how a
// loss is reduced.
//   none: L = l      sum: L = sum l      mean: L = sum l / count      da = dL/dl dl/da
#pragma once

#include "d5/operators/elementwise.hpp"

namespace d5 {

enum class Reduction { none, mean, sum };

inline Reduction parse_reduction(const Attributes& a, std::string_view place) {
  const std::string word = a.text("reduction", "mean");
  if (word == "none") return Reduction::none;
  if (word == "mean") return Reduction::mean;
  if (word == "sum") return Reduction::sum;
  throw UsageError("{} reduction is '{}'; legal: none, mean, sum", place, word);
}

// Losses that are stored in their own type before they are reduced: one round-off of it, in units of the accumulator's.
inline double stored_units(DType type) {
  return round_off(type) / round_off(type == DType::f64 ? DType::f64 : DType::f32);
}

// F: place, l(a, b) by call, slope(input, a, b), their errors as in elementwise.hpp, integer_exact, ranges, flops.
template <class F>
class ElementLoss final : public Operator {
 public:
  explicit ElementLoss(const Attributes& a) : reduction_(parse_reduction(a, F::place)) {
    check_attributes(a, {"reduction"}, F::place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, F::place);
    check_same_type(in, F::place);
    check_type(in[0], float_types, F::place);
    if (in[0].shape != in[1].shape)
      throw Error("{} predictions are {} and targets {}; one shape is wanted", F::place, to_string(in[0].shape),
                  to_string(in[1].shape));
    return {{in[0].dtype, reduction_ == Reduction::none ? in[0].shape : Shape{}}};
  }

  void forward(Context& c) const override {
    reduce(c, c.output(0), [&](double a, double b) { return F{}(a, b); });
  }

  void backward(Context& c) const override {
    for (const size_t input : {0, 1})
      if (c.input_gradient(input).present())
        spread(c, c.input_gradient(input), [&](double a, double b) { return F{}.slope(input, a, b); });
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const double elements = static_cast<double>(in[0].elements());
    const TensorSpec y = infer(in)[0];
    if (pass == Pass::forward)
      return {(F::flops[0] + (y.shape.rank() < in[0].shape.rank())) * elements, input_bytes(in) + y.bytes()};
    return {2 * F::flops[1] * elements, 2 * input_bytes(in) + y.bytes()};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    const bool reduced = reduction_ != Reduction::none, mean = reduction_ == Reduction::mean;
    if (pass == Pass::backward)
      return {.terms = 0, .units = F::units + mean, .exact = F::integer_exact && !mean, .stored_outputs = true};
    return {.terms = reduced ? static_cast<double>(in[0].elements()) : 0,
            .units = F::units + mean + (reduced ? stored_units(in[0].dtype) : 0),
            .exact = F::integer_exact && !mean};
  }

  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    Tensor scale(DType::f64, pass == Pass::forward ? c.output(0).shape() : c.input(0).shape());
    if (pass == Pass::forward) {
      reduce(c, scale, [&](double a, double b) { return F{}.error(a, b); });
    } else {
      spread(c, scale, [&](double a, double b) { return F{}.slope_error(index, a, b); });
      for (double& value : scale.values<double>()) value = std::abs(value);
    }
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of predictions and targets", "128x1000"}, {"reduction", "none, mean or sum", "mean"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const TensorSpec spec{type, parse_shape(v.text("shape", ""))};
    return {.inputs = {{.spec = spec, .low = F::low, .high = F::high},
                       {.spec = spec, .low = F::target_low, .high = F::target_high}},
            .attributes = {{"reduction", v.text("reduction", "mean")}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "scalar"}},
            {{"shape", "3x5"}, {"reduction", "none"}},
            {{"shape", "17"}, {"reduction", "sum"}},
            {{"shape", "2x3x7x5"}},
            {{"shape", "32x1000"}}};
  }

 private:
  template <class L>
  void reduce(const Context& c, const Tensor& to, L&& loss) const {
    const auto a = c.input(0).values<double>(), b = c.input(1).values<double>(), y = to.values<double>();
    if (reduction_ == Reduction::none) {
      for (size_t i = 0; i < a.size(); ++i) y[i] = loss(a[i], b[i]);
      return;
    }
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += loss(a[i], b[i]);
    y[0] = reduction_ == Reduction::mean ? sum / static_cast<double>(a.size()) : sum;
  }

  template <class S>
  void spread(const Context& c, const Tensor& to, S&& slope) const {
    const auto a = c.input(0).values<double>(), b = c.input(1).values<double>(), dx = to.values<double>();
    const auto dy = c.output_gradient(0).values<double>();
    const double share = reduction_ == Reduction::mean ? 1 / static_cast<double>(a.size()) : 1;
    for (size_t i = 0; i < a.size(); ++i) dx[i] = dy[reduction_ == Reduction::none ? i : 0] * share * slope(a[i], b[i]);
  }

  Reduction reduction_;
};

}  // namespace d5
