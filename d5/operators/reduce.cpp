// SPDX-License-Identifier: Apache-2.0
// Reductions over some axes (ONNX, opset 18 and later: the axes are an input). Without axes all of them are reduced, or
// none with noop_with_empty_axes; then a result is made of one element, and ReduceL1 is the absolute value.
//   ReduceSum        y = sum x_i                       dx_i = dy
//   ReduceMean       y = sum x_i / n                   dx_i = dy / n
//   ReduceMax, Min   y = max x_i                       dx_i = dy / t where x_i = y, shared by the t elements that tie
//   ReduceProd       y = prod x_i                      dx_i = dy prod_{j != i} x_j
//   ReduceL1         y = sum |x_i|                     dx_i = dy sign x_i
//   ReduceL2         y = sqrt(sum x_i^2)               dx_i = dy x_i / y, 0 where y = 0
//   ReduceSumSquare  y = sum x_i^2                     dx_i = 2 dy x_i
//   ReduceLogSum     y = log(sum x_i)                  dx_i = dy / sum x_i
//   ReduceLogSumExp  y = m + log(sum exp(x_i - m))     dx_i = dy exp(x_i - y)      with m = max x_i
// Integers are computed in their own type and wrap around; a mean, root or logarithm of them drops its fraction. NaN is
// the maximum and the minimum of whatever it is among.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "d5/core/convert.hpp"
#include "d5/core/parallel.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/product.hpp"
#include "d5/operators/reduced_axes.hpp"

namespace d5 {
namespace {

template <class T>
using Elements = std::span<const T>;
using Doubles = std::span<const double>;

// What a rule has, unless it says otherwise. `reduce` gives y; `factors` gives dx_i / dy.
struct Rule {
  static constexpr double low = -1, high = 1;             // of random inputs
  static constexpr bool narrow_types = false;             // also i8, u8 and bool
  static constexpr double flops = 1, gradient_flops = 1;  // of one element
  static constexpr bool gradient_reads_input = true;
  // On absolute values the operator itself is the scale of its errors. Where it is not, a rule has `scale` (of y) and
  // `factor_scales`.
  static constexpr bool forward_is_scale = true, backward_is_scale = true;
  static double scale(Doubles, double) { return 0; }
  static void factor_scales(Doubles, double, std::span<double>) {}
};

template <class T>
T sum(Elements<T> x) {
  T total{};
  for (const T value : x) total = multiply_add(value, T{1}, total);
  return total;
}

template <class T>
T sum_of_squares(Elements<T> x) {
  T total{};
  for (const T value : x) total = multiply_add(total, value, value);
  return total;
}

template <class T, class F>
T from_double(Elements<T> x, F&& f) {  // for results that integers do not have
  const std::vector<double> wide(x.begin(), x.end());
  T result;
  store_from_double(dtype_of<T>::value, &result, 0, f(Doubles(wide)));
  return result;
}

struct ReduceSum : Rule {
  static constexpr const char* tag = "[reduce_sum]";
  static constexpr double gradient_flops = 0;
  static constexpr bool gradient_reads_input = false;
  template <class T>
  static T reduce(Elements<T> x) {
    return sum(x);
  }
  static void factors(Doubles, double, std::span<double> out) { std::ranges::fill(out, 1.0); }
  static Rounding rounding(double n, Pass pass) {
    return {.terms = pass == Pass::forward ? n : 0, .units = 0, .exact = true};
  }
};

struct ReduceMean : Rule {
  static constexpr const char* tag = "[reduce_mean]";
  static constexpr bool gradient_reads_input = false;
  template <class T>
  static T reduce(Elements<T> x) {
    if constexpr (std::is_integral_v<T>)
      return x.empty()
                 ? T{}
                 : static_cast<T>(sum(x) /
                                  static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(x.size()));
    else
      return sum(x) / static_cast<double>(x.size());
  }
  static void factors(Doubles x, double, std::span<double> out) {
    std::ranges::fill(out, 1.0 / static_cast<double>(x.size()));
  }
  // A division, or 1 / n and a product.
  static Rounding rounding(double n, Pass pass) { return {.terms = pass == Pass::forward ? n : 0, .units = 2}; }
};

template <bool largest>
struct Extreme : Rule {
  static constexpr const char* tag = largest ? "[reduce_max]" : "[reduce_min]";
  static constexpr bool narrow_types = true, backward_is_scale = false;
  template <class T>
  static T reduce(Elements<T> x) {
    using Limits = std::numeric_limits<T>;
    T best = largest ? Limits::lowest() : Limits::max();
    if constexpr (Limits::has_infinity) best = largest ? -Limits::infinity() : Limits::infinity();
    for (const T value : x)
      if (value != value || (largest ? value > best : value < best)) best = value;
    return best;
  }
  static void factors(Doubles x, double y, std::span<double> out) {
    const double ties = static_cast<double>(std::ranges::count(x, y));
    for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] == y ? 1 / ties : 0;
  }
  // The gradient of a tie is a quotient; on absolute values another element would win.
  static Rounding rounding(double, Pass pass) {
    return pass == Pass::forward ? Rounding{.terms = 0, .units = 0, .exact = true} : Rounding{.terms = 0, .units = 1};
  }
  static void factor_scales(Doubles x, double y, std::span<double> out) { factors(x, y, out); }
};

struct ReduceProd : Rule {
  static constexpr const char* tag = "[reduce_prod]";
  static constexpr double low = 0.5, high = 1.5, gradient_flops = 2;
  template <class T>
  static T reduce(Elements<T> x) {
    T product{1};
    for (const T value : x) product = multiply_add(T{}, product, value);
    return product;
  }
  static void factors(Doubles x, double, std::span<double> out) {
    double product = 1;
    for (size_t i = 0; i < x.size(); ++i) {  // of those before, then of those behind
      out[i] = product;
      product *= x[i];
    }
    product = 1;
    for (size_t i = x.size(); i-- > 0; product *= x[i]) out[i] *= product;
  }
  // Every product rounds once, relative to the result; n of them grow as a sum does. y / x_i reads y as stored.
  static Rounding rounding(double n, Pass pass) {
    return {.terms = n, .units = 2, .stored_outputs = pass == Pass::backward};
  }
};

struct ReduceL1 : Rule {
  static constexpr const char* tag = "[reduce_l1]";
  static constexpr double flops = 2;
  template <class T>
  static T reduce(Elements<T> x) {
    T total{};
    for (const T value : x) total = multiply_add(total, value, static_cast<T>(value < T{} ? -1 : 1));
    return total;
  }
  static void factors(Doubles x, double, std::span<double> out) {
    for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] > 0 ? 1 : x[i] < 0 ? -1 : 0;
  }
  static Rounding rounding(double n, Pass pass) {
    return {.terms = pass == Pass::forward ? n : 0, .units = 0, .exact = true};
  }
};

struct ReduceL2 : Rule {
  static constexpr const char* tag = "[reduce_l2]";
  static constexpr double flops = 2, gradient_flops = 2;
  template <class T>
  static T reduce(Elements<T> x) {
    if constexpr (std::is_integral_v<T>)
      return from_double(x, reduce<double>);
    else
      return std::sqrt(sum_of_squares(x));
  }
  static void factors(Doubles x, double y, std::span<double> out) {
    for (size_t i = 0; i < x.size(); ++i) out[i] = y == 0 ? 0 : x[i] / y;
  }
  // The sum of squares errs by n + 1 units relative to itself, its root by half of that and a rounding more; backward
  // divides by y, as stored, and multiplies.
  static Rounding rounding(double n, Pass pass) {
    return {.terms = n, .units = pass == Pass::forward ? 2.0 : 4.0, .stored_outputs = pass == Pass::backward};
  }
};

struct ReduceSumSquare : Rule {
  static constexpr const char* tag = "[reduce_sum_square]";
  static constexpr double flops = 2;
  template <class T>
  static T reduce(Elements<T> x) {
    return sum_of_squares(x);
  }
  static void factors(Doubles x, double, std::span<double> out) {
    for (size_t i = 0; i < x.size(); ++i) out[i] = 2 * x[i];
  }
  static Rounding rounding(double n, Pass pass) {
    return {.terms = pass == Pass::forward ? n : 0, .units = 1, .exact = true};
  }
};

struct ReduceLogSum : Rule {
  static constexpr const char* tag = "[reduce_log_sum]";
  static constexpr double low = 0.1, high = 2;
  static constexpr bool forward_is_scale = false, backward_is_scale = false;
  template <class T>
  static T reduce(Elements<T> x) {
    if constexpr (std::is_integral_v<T>)
      return from_double(x, reduce<double>);
    else
      return std::log(sum(x));
  }
  static void factors(Doubles x, double, std::span<double> out) { std::ranges::fill(out, 1 / sum(x)); }
  // The sum s errs by a relative k = sum |x_i| / |s| for each unit of its growth: that is the absolute error of its
  // logarithm and the relative one of 1 / s. A logarithm of 2 ulp; a division.
  static Rounding rounding(double n, Pass) { return {.terms = n, .units = 2}; }
  static double condition(Doubles x) {
    double absolute = 0;
    for (const double value : x) absolute += std::abs(value);
    return absolute / std::abs(sum(x));
  }
  static double scale(Doubles x, double y) { return condition(x) + std::abs(y); }
  static void factor_scales(Doubles x, double, std::span<double> out) {
    std::ranges::fill(out, condition(x) / std::abs(sum(x)));
  }
};

struct ReduceLogSumExp : Rule {
  static constexpr const char* tag = "[reduce_log_sum_exp]";
  static constexpr double low = -4, high = 4, flops = 4, gradient_flops = 3;
  static constexpr bool forward_is_scale = false, backward_is_scale = false;
  template <class T>
  static T reduce(Elements<T> x) {
    if constexpr (std::is_integral_v<T>) {
      return from_double(x, reduce<double>);
    } else {
      const double top = Extreme<true>::reduce(x);
      if (!std::isfinite(top)) return top;
      double total = 0;
      for (const double value : x) total += std::exp(value - top);
      return top + std::log(total);
    }
  }
  static void factors(Doubles x, double y, std::span<double> out) {
    for (size_t i = 0; i < x.size(); ++i) out[i] = std::exp(x[i] - y);
  }
  // With p_i = exp(x_i - y) and d_i = m - x_i: rounding d_i changes its exponential by a relative d_i, so the sum errs
  // by a relative 1 + sum p_i d_i, which is the absolute error of its logarithm l = y - m; the logarithm and the sum
  // with m round too: y errs by r = 1 + sum p_i d_i + |l| + |y|. In the gradient p_i errs by a relative r + |x_i - y|,
  // where y is read as stored. An exponential below the smallest normal float may become zero: `flushed`, divided by u
  // since it does not scale with it. An exponential of 2 ulp, the subtraction before it, a product.
  static Rounding rounding(double n, Pass pass) {
    return {.terms = n, .units = 4, .stored_outputs = pass == Pass::backward};
  }
  static double scale(Doubles x, double y) {
    const double top = Extreme<true>::reduce(x);
    double spread = 0;
    for (const double value : x) spread += std::exp(value - y) * (top - value);
    return 1 + spread + std::abs(y - top) + std::abs(y);
  }
  static void factor_scales(Doubles x, double y, std::span<double> out) {
    constexpr double flushed = 0x1p-126 / 0x1p-24;
    const double r = scale(x, y);
    for (size_t i = 0; i < x.size(); ++i) out[i] = std::exp(x[i] - y) * (r + std::abs(x[i] - y)) + flushed;
  }
};

template <class R>
class Reduce final : public Operator {
 public:
  explicit Reduce(const Attributes& a)
      : keepdims_(a.flag("keepdims", true)), noop_(a.flag("noop_with_empty_axes", false)) {
    check_attributes(a, {"keepdims", "noop_with_empty_axes"}, R::tag);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 2, R::tag);
    if (R::narrow_types)
      check_type(in[0],
                 {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u32, DType::u64,
                  DType::i8, DType::u8, DType::boolean},
                 R::tag);
    else
      check_type(in[0],
                 {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u32, DType::u64},
                 R::tag);
    return with_known(*this, in, {{in[0].dtype, axes(in).result(in[0].shape, keepdims_)}});
  }

  void forward(Context& c) const override {
    const ReducedAxes axes = this->axes(known_specs(c.inputs));
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      const auto y = c.output(0).values<T>();
      for_each_result<T>(c, axes, [&](Index o, Elements<Number<T>> x) { y[o] = static_cast<T>(R::reduce(x)); });
    });
  }

  void backward(Context& c) const override {
    fill_gradient(c, c.input_gradient(0), [](Doubles x, double dy, std::span<double> dx) {
      R::factors(x, R::reduce(x), dx);
      for (double& value : dx) value *= dy;
    });
  }

  bool forward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    if (!R::forward_is_scale) return false;
    const ReducedAxes axes = this->axes(known_specs(c.inputs));
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      std::vector<Number<T>> x;
      for (size_t i = 0; i < at.size(); ++i) {
        load<T>(c, axes, at[i], x);
        values[i] = static_cast<double>(R::reduce(Elements<Number<T>>(x)));
      }
    });
    return true;
  }

  bool backward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    if (!R::backward_is_scale) return false;
    const ReducedAxes axes = this->axes(known_specs(c.inputs));
    const Shape& shape = c.input(0).shape();
    const auto dy = c.output_gradient(0).values<double>();
    std::vector<double> x, factors;
    for (size_t i = 0; i < at.size(); ++i) {
      const Index o = axes.result_of(shape, at[i]);
      load<double>(c, axes, o, x);
      factors.resize(x.size());
      R::factors(x, R::reduce(Doubles(x)), factors);
      Index place = 0;
      axes.reduced.for_each([&](Index r, Index offset) { place = axes.kept(o) + offset == at[i] ? r : place; });
      values[i] = dy[o] * factors[place];
    }
    return true;
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const TensorSpec y{in[0].dtype, axes(in).result(in[0].shape, keepdims_)};
    const double n = static_cast<double>(in[0].elements()), list = input_bytes(in.subspan(1));
    if (pass == Pass::forward) return {R::flops * n, in[0].bytes() + y.bytes() + list};
    const double read = R::gradient_reads_input ? in[0].bytes() : 0;
    return {R::gradient_flops * n, in[0].bytes() + read + y.bytes() + list};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    return R::rounding(static_cast<double>(axes(in).reduced.elements()), pass);
  }

  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    if (pass == Pass::forward ? R::forward_is_scale : R::backward_is_scale) return {};
    if (pass == Pass::backward) {
      Tensor scale(DType::f64, c.input(0).shape());
      fill_gradient(c, scale, [](Doubles x, double dy, std::span<double> dx) {
        R::factor_scales(x, R::reduce(x), dx);
        for (double& value : dx) value *= std::abs(dy);
      });
      return scale;
    }
    Tensor scale(DType::f64, c.output(0).shape());
    if (c.input(0).dtype() != DType::f64) return c.output(0).cast(DType::f64);
    for_each_result<double>(c, axes(known_specs(c.inputs)),
                            [&](Index o, Doubles x) { scale.values<double>()[o] = R::scale(x, R::reduce(x)); });
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "32x64x56x56"},
            {"axes", "axes that are reduced, as in 0x2; empty: no such input, none: an empty list", ""},
            {"keepdims", "reduced axes stay, with size 1", true},
            {"noop", "without axes reduce none instead of all (noop_with_empty_axes)", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .low = R::low, .high = R::high},
                       list_input(v, "axes")},
            .attributes = {{"keepdims", int64_t{v.flag("keepdims", true)}},
                           {"noop_with_empty_axes", int64_t{v.flag("noop", false)}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "scalar"}},
            {{"shape", "3x5"}},
            {{"shape", "3x17"}, {"axes", "1"}, {"keepdims", false}},
            {{"shape", "2x3x4x5"}, {"axes", "0x2"}},
            {{"shape", "2x3x5"}, {"axes", "-2"}, {"keepdims", false}},
            {{"shape", "7x3"}, {"axes", "none"}, {"noop", true}},
            {{"shape", "5x1x3"}, {"axes", "none"}},
            {{"shape", "4x1x3"}, {"axes", "1"}},
            {{"shape", "8x16x14x14"}, {"axes", "0x2x3"}}};
  }

 private:
  template <class T>
  using Number = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;  // there is no plain vector of bool

  ReducedAxes axes(SpecSpan in) const {
    const Shape& x = in[0].shape;
    std::vector<Index> list;
    if (has(in, 1)) list = known_integers(in[1], "axes", R::tag);
    if (list.empty() && !noop_)
      for (size_t axis = 0; axis < x.rank(); ++axis) list.push_back(static_cast<Index>(axis));
    return {x, list, R::tag};
  }

  template <class T>
  static void load(const Context& c, const ReducedAxes& axes, Index o, std::vector<Number<T>>& x) {
    const auto all = c.input(0).values<T>();
    const Index start = axes.kept(o);
    x.resize(static_cast<size_t>(axes.reduced.elements()));
    axes.reduced.for_each([&](Index r, Index offset) { x[r] = all[start + offset]; });
  }

  // f(result, its elements), results on several threads.
  template <class T, class F>
  static void for_each_result(const Context& c, const ReducedAxes& axes, F&& f) {
    const Index grain = std::max<Index>(1, (1 << 16) / std::max<Index>(1, axes.reduced.elements()));
    parallel_for(axes.kept.elements(), grain, [&](Index first, Index last) {
      std::vector<Number<T>> x;
      for (Index o = first; o < last; ++o) {
        load<T>(c, axes, o, x);
        f(o, Elements<Number<T>>(x));
      }
    });
  }

  // f(elements, dy, their gradients) for each result.
  template <class F>
  void fill_gradient(const Context& c, const Tensor& to, F&& f) const {
    if (!to.present()) return;
    const ReducedAxes axes = this->axes(known_specs(c.inputs));
    const auto dy = c.output_gradient(0).values<double>(), dx = to.values<double>();
    for_each_result<double>(c, axes, [&](Index o, Doubles x) {
      std::vector<double> part(x.size());
      f(x, dy[o], part);
      const Index start = axes.kept(o);
      axes.reduced.for_each([&](Index r, Index offset) { dx[start + offset] = part[r]; });
    });
  }

  bool keepdims_, noop_;
};

}  // namespace
D5_REGISTER(operators, "ReduceSum", Reduce<ReduceSum>);
D5_REGISTER(operators, "ReduceMean", Reduce<ReduceMean>);
D5_REGISTER(operators, "ReduceMax", Reduce<Extreme<true>>);
D5_REGISTER(operators, "ReduceMin", Reduce<Extreme<false>>);
D5_REGISTER(operators, "ReduceProd", Reduce<ReduceProd>);
D5_REGISTER(operators, "ReduceL1", Reduce<ReduceL1>);
D5_REGISTER(operators, "ReduceL2", Reduce<ReduceL2>);
D5_REGISTER(operators, "ReduceSumSquare", Reduce<ReduceSumSquare>);
D5_REGISTER(operators, "ReduceLogSum", Reduce<ReduceLogSum>);
D5_REGISTER(operators, "ReduceLogSumExp", Reduce<ReduceLogSumExp>);
}  // namespace d5
