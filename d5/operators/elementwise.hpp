// SPDX-License-Identifier: Apache-2.0
// Elementwise operators as tables: an operator is a struct with its function, slopes and errors; the rest is here.
//   y = f(x)      dx = dy f'(x)
//   y = f(a, b)   da = sum of dy df/da over the axes along which a is broadcast, db likewise
//
// Errors are first order. Vector libraries promise 4 ulp for an elementary function, which is 8 u; the same 8 u covers
// a constant, a scale or a reduction by which its argument is rounded first. So |error of y| <= 8 u `error(x)`, where
//   error(x) = |y| + |x f'(x)|       unless the usual formula cancels: then the terms that cancel
// The slope errs likewise by 8 u `slope_error(x)`. A gradient that is made of several steps, each stored in the element
// type, or that is made from the stored y (Rounding::stored_outputs) errs by one round-off of that type for each step:
// slope_error counts them, too.
#pragma once

#include <cmath>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "d5/core/parallel.hpp"
#include "d5/operators/broadcast.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {

inline constexpr std::initializer_list<DType> float_types{DType::f32, DType::f64, DType::f16, DType::bf16};
inline constexpr std::initializer_list<DType> integer_types{DType::i8, DType::i16, DType::i32, DType::i64,
                                                            DType::u8, DType::u16, DType::u32, DType::u64};
inline constexpr std::initializer_list<DType> signed_types{DType::f32, DType::f64, DType::f16, DType::bf16,
                                                           DType::i8,  DType::i16, DType::i32, DType::i64};
inline constexpr std::initializer_list<DType> number_types{DType::f32, DType::f64, DType::f16, DType::bf16,
                                                           DType::i8,  DType::i16, DType::i32, DType::i64,
                                                           DType::u8,  DType::u16, DType::u32, DType::u64};
inline constexpr std::initializer_list<DType> bool_types{DType::boolean};

inline constexpr double elementary_units = 8;  // 4 ulp
// At a kink (or a tie) either one-sided slope is right: the jump between them, in units of the round-off with which
// every type but f64 is computed.
inline constexpr double undecided = 0x1p24 / elementary_units;

// Names of the attributes that are parameters of a case, after the first `skip` (shapes).
inline std::vector<std::string> names_of(const std::vector<Parameter>& parameters, size_t skip = 0) {
  std::vector<std::string> names;
  for (size_t i = skip; i < parameters.size(); ++i) names.push_back(parameters[i].name);
  return names;
}
inline Attributes chosen(const Attributes& values, const std::vector<Parameter>& parameters) {
  Attributes all;
  for (const Parameter& p : parameters) all.set(p.name, values.has(p.name) ? values.values().at(p.name) : p.otherwise);
  return all;
}

// The function with its attributes, where it has any.
template <class F>
F made_from(const Attributes& a) {
  if constexpr (std::is_constructible_v<F, const Attributes&>)
    return F(a);
  else
    return F{};
}

// dx = sum of term(i) over the elements i of y that read each element of x.
template <class Term>
void sum_to(const Tensor& dx, const Shape& y, Term&& term) {
  const auto sums = cleared(dx);
  const Broadcast at(dx.shape(), y);
  for (Index i = 0; i < y.elements(); ++i) sums[at(i)] += term(i);
}

// How many elements of y read one of x: the terms of its gradient.
inline double readers(const TensorSpec& x, const TensorSpec& y) {
  return static_cast<double>(y.elements()) / std::max(1.0, static_cast<double>(x.elements()));
}

template <class Body>
void for_each_element(Index count, Body&& body) {
  parallel_for(count, 1 << 14, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) body(i);
  });
}

// ---- y = f(x). What a function may leave as it is; it is called with x and defines `place`,
// slope(x) and, unless exact, the errors.
struct Function {
  static constexpr std::initializer_list<DType> types = float_types;
  static constexpr bool integers = false;           // it is called with integers, too
  static constexpr bool exact = false;              // no rounding but the last
  static constexpr bool differentiable = true;      // else it has no slope
  static constexpr bool slope_is_constant = false;  // backward reads dy alone
  static constexpr bool predicate = false;          // the result is bool
  static constexpr double low = -4.1, high = 4;     // values of a case; not symmetric: kinks lie at round numbers
  static constexpr double flops[2] = {1, 2};        // forward, backward; an elementary function counts one
  static std::vector<Parameter> parameters() { return {}; }          // the attributes, with ONNX's defaults
  static std::vector<Attributes> attribute_cases() { return {{}}; }  // values of them worth a case
  // A function with a kink may have a member `round_off`: it is that of the arithmetic (Context) when errors are asked.
};

template <class F>
class Unary final : public Operator {
 public:
  explicit Unary(const Attributes& a) : f_(made_from<F>(a)) { a.check_names(names_of(F::parameters()), F::place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, F::place);
    check_type(in[0], F::types, F::place);
    return {{F::predicate ? DType::boolean : in[0].dtype, in[0].shape}};
  }

  void forward(Context& c) const override {
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      if constexpr (F::integers || std::is_same_v<T, double>) {
        const auto x = c.input(0).values<T>();
        const auto y = c.output(0).values<std::conditional_t<F::predicate, bool, T>>();
        for_each_element(c.input(0).elements(), [&](Index i) { y[i] = f_(x[i]); });
      }
    });
  }

  void backward(Context& c) const override {
    if constexpr (!F::differentiable) {
      Operator::backward(c);
    } else {
      if (!c.input_gradient(0).present()) return;
      const auto x = c.input(0).values<double>(), dy = c.output_gradient(0).values<double>();
      const auto dx = c.input_gradient(0).values<double>();
      for_each_element(c.input(0).elements(), [&](Index i) { dx[i] = dy[i] * f_.slope(x[i]); });
    }
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const double elements = static_cast<double>(in[0].elements());
    if (pass == Pass::forward) return {F::flops[0] * elements, in[0].bytes() + infer(in)[0].bytes()};
    return {F::flops[1] * elements, (F::slope_is_constant ? 2 : 3) * in[0].bytes()};
  }

  Rounding rounding(SpecSpan, Pass pass, size_t) const override {
    if (F::exact || !F::differentiable) return {.terms = 0, .units = 0, .exact = true};
    return {.terms = 0, .units = elementary_units, .stored_outputs = pass == Pass::backward};
  }

  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    if constexpr (F::exact || !F::differentiable) {
      const Tensor& result = pass == Pass::forward ? c.output(0) : c.input_gradient(0);
      return result.cast(DType::f64);
    } else {
      if (c.input(0).dtype() != DType::f64) return c.output(0).cast(DType::f64);
      Tensor scale(DType::f64, c.input(0).shape());
      const auto x = c.input(0).values<double>(), out = scale.values<double>();
      F f = f_;
      if constexpr (requires { f.round_off; }) f.round_off = c.round_off;
      for_each_element(scale.elements(), [&](Index i) {
        out[i] = pass == Pass::forward ? f.error(x[i])
                                       : f.slope_error(x[i]) * std::abs(c.output_gradient(0).values<double>()[i]);
      });
      return scale;
    }
  }

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all{{"shape", "shape of X", "64x256x14x14"}};
    for (Parameter& p : F::parameters()) all.push_back(std::move(p));
    return all;
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))},
                        .low = F::low,
                        .high = F::high,
                        .differentiable = F::differentiable}},
            .attributes = chosen(v, F::parameters())};
  }

  static std::vector<Attributes> cases() {
    std::vector<Attributes> all{{{"shape", "scalar"}}, {{"shape", "17"}}, {{"shape", "1x2x3x4x5"}}};
    for (Attributes values : F::attribute_cases()) {
      values.set("shape", std::string("3x31"));
      all.push_back(values);
    }
    all.push_back({{"shape", "4x32x14x14"}});
    return all;
  }

 private:
  F f_;
};

// ---- y = f(a, b), broadcast. Slopes and their errors are those by a (input 0) or b (input 1).
struct BinaryFunction {
  static constexpr std::initializer_list<DType> types = number_types;
  static constexpr bool exact = false;
  static constexpr bool exact_slopes = false;  // on small integers the gradients are exact, too
  static constexpr bool differentiable = true;
  static constexpr bool slope_is_constant = false;
  static constexpr bool predicate = false;
  static constexpr bool strings = false;    // a predicate that compares strings, too
  static constexpr bool broadcasts = true;  // else the inputs have one shape
  static constexpr double a_low = -2, a_high = 2, b_low = -2, b_high = 2;
  static constexpr double units = elementary_units;
  static constexpr double flops[2] = {1, 2};  // backward: of each gradient
  static constexpr const char* real_size = "4x32x14x14";
  static std::vector<Parameter> parameters() { return {}; }
  static std::vector<Attributes> attribute_cases() { return {{}}; }
  static void check(SpecSpan in, std::string_view place) { check_same_type(in, place); }
};

template <class F>
class Binary final : public Operator {
 public:
  explicit Binary(const Attributes& a) : f_(made_from<F>(a)) { a.check_names(names_of(F::parameters()), F::place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, F::place);
    f_.check(in, F::place);
    check_type(in[0], F::types, F::place);
    return {output_spec(F::predicate ? DType::boolean : in[0].dtype,
                        broadcast(in[0].shape, in[1].shape, F::place).sizes(), F::place)};
  }

  void forward(Context& c) const override {
    if constexpr (F::strings) {
      if (c.input(0).dtype() == DType::string) {
        const Broadcast at_a(c.input(0).shape(), c.output(0).shape()), at_b(c.input(1).shape(), c.output(0).shape());
        const auto a = c.input(0).values<std::string>(), b = c.input(1).values<std::string>();
        const auto y = c.output(0).values<bool>();
        for (Index i = 0; i < c.output(0).elements(); ++i) y[i] = f_(a[at_a(i)], b[at_b(i)]);
        return;
      }
    }
    // Types differ for Pow alone: an integer power of an integer is one, anything else is computed in double.
    const DType own = c.input(0).dtype(), other = c.input(1).dtype();
    const DType type = own == other || (is_integer(own) && is_integer(other)) ? own : DType::f64;
    const Tensor left = as(type, c.input(0)), right = as(type, c.input(1));
    const DType result = F::predicate ? DType::boolean : type;
    const Tensor out = result == c.output(0).dtype() ? c.output(0) : Tensor(result, c.output(0).shape());
    const Broadcast at_a(left.shape(), out.shape()), at_b(right.shape(), out.shape());
    with_compute_type(type, [&]<class T>() {
      if constexpr (std::is_invocable_v<F, T, T>) {
        const auto a = left.values<T>(), b = right.values<T>();
        const auto y = out.values<std::conditional_t<F::predicate, bool, T>>();
        for_each_element(out.elements(), [&](Index i) { y[i] = f_(a[at_a(i)], b[at_b(i)]); });
      }
    });
    if (result != c.output(0).dtype()) c.output(0).copy_from(out.cast(c.output(0).dtype()));
  }

  void backward(Context& c) const override {
    if constexpr (!F::differentiable) {
      Operator::backward(c);
    } else {
      for (const size_t input : {0, 1})
        if (c.input_gradient(input).present())
          sum_terms(c, c.input_gradient(input),
                    [&](double a, double b, double dy) { return dy * f_.slope(input, a, b); });
    }
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const TensorSpec y = infer(in)[0];
    const double elements = static_cast<double>(y.elements());
    if (pass == Pass::forward) return {F::flops[0] * elements, input_bytes(in) + y.bytes()};
    return {2 * F::flops[1] * elements, (F::slope_is_constant ? 1 : 2) * input_bytes(in) + y.bytes()};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    if (!F::differentiable || (pass == Pass::forward && F::exact)) return {.terms = 0, .units = 0, .exact = true};
    if (pass == Pass::forward) return {.terms = 0, .units = F::units};
    return {.terms = readers(in[index], infer(in)[0]) - 1,
            .units = F::units,
            .exact = F::exact_slopes,
            .stored_outputs = true};
  }

  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    if constexpr (!F::differentiable) {
      return c.output(0).cast(DType::f64);
    } else {
      if (pass == Pass::forward && (F::exact || !is_float(c.output(0).dtype()))) return c.output(0).cast(DType::f64);
      Tensor scale(DType::f64, pass == Pass::forward ? c.output(0).shape() : c.input(index).shape());
      sum_terms(c, scale, [&](double a, double b, double dy) {
        return pass == Pass::forward ? f_.error(a, b) : std::abs(dy) * f_.slope_error(index, a, b);
      });
      return scale;
    }
  }

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all{{"a", "shape of A", "64x256x14x14"}, {"b", "shape of B", "64x256x14x14"}};
    for (Parameter& p : F::parameters()) all.push_back(std::move(p));
    return all;
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("a", ""))},
                        .low = F::a_low,
                        .high = F::a_high,
                        .differentiable = F::differentiable},
                       {.spec = {type, parse_shape(v.text("b", ""))},
                        .low = F::b_low,
                        .high = F::b_high,
                        .differentiable = F::differentiable}},
            .attributes = chosen(v, F::parameters())};
  }

  static std::vector<Attributes> cases() {
    std::vector<Attributes> all{{{"a", "scalar"}, {"b", "5"}},
                                {{"a", "3x4x5"}, {"b", "5"}},
                                {{"a", "4x5"}, {"b", "2x3x4x5"}},
                                {{"a", "3x1x5"}, {"b", "1x7x1"}},
                                {{"a", "2x3x1x1"}, {"b", "2x3x7x5"}},
                                {{"a", "17x31"}, {"b", "17x1"}},
                                {{"a", F::real_size}, {"b", F::real_size}}};
    if (!F::broadcasts)
      for (Attributes& values : all) values.set("b", values.values().at("a"));
    for (Attributes values : F::attribute_cases()) {
      values.set("a", std::string("3x31"));
      values.set("b", std::string("3x31"));
      all.push_back(values);
    }
    return all;
  }

 private:
  static Tensor as(DType type, const Tensor& tensor) { return tensor.dtype() == type ? tensor : tensor.cast(type); }

  // to = sum of term(a, b, dy) over the elements of y that read each element; dy is 0 where there is none.
  template <class Term>
  static void sum_terms(const Context& c, const Tensor& to, Term&& term) {
    const Tensor left = as(DType::f64, c.input(0)), right = as(DType::f64, c.input(1));
    const auto a = left.values<double>(), b = right.values<double>();
    const Shape& shape = c.output(0).shape();
    const Broadcast at_a(left.shape(), shape), at_b(right.shape(), shape);
    const bool seeded = c.output_gradient(0).present();
    const auto dy = seeded ? c.output_gradient(0).values<double>() : std::span<double>();
    sum_to(to, shape, [&](Index i) { return term(a[at_a(i)], b[at_b(i)], seeded ? dy[i] : 0.0); });
  }

  F f_;
};

}  // namespace d5
