// SPDX-License-Identifier: Apache-2.0
// Any number of inputs with numpy's broadcasting (ONNX Sum, Mean, Min, Max).
//   Sum   y = x_1 + ... + x_n           dx_k = dy
//   Mean  y = (x_1 + ... + x_n) / n     dx_k = dy / n
//   Max   y = the largest               dx_k = dy where x_k is the first of the largest, else 0; Min likewise
// dx_k is summed over the axes along which x_k is broadcast. A NaN makes the minimum and the maximum NaN.
#include "d5/operators/elementwise.hpp"

namespace d5 {
namespace {

struct Sum {
  static constexpr std::string_view place = "[sum]";
  static constexpr auto types = float_types;
  static constexpr bool exact = true;
  static constexpr double units = 0;
  static double scale(size_t) { return 1; }
};
struct Mean {
  static constexpr std::string_view place = "[mean]";
  static constexpr auto types = float_types;
  static constexpr bool exact = false;
  static constexpr double units = 2;  // 1 / n, and the product with it
  static double scale(size_t count) { return 1 / static_cast<double>(count); }
};
struct Max {
  static constexpr std::string_view place = "[max]";
  static constexpr auto types = number_types;
  template <class T>
  static bool wins(T challenger, T champion) {
    return challenger > champion || (challenger != challenger && champion == champion);
  }
};
struct Min {
  static constexpr std::string_view place = "[min]";
  static constexpr auto types = number_types;
  template <class T>
  static bool wins(T challenger, T champion) {
    return challenger < champion || (challenger != challenger && champion == champion);
  }
};

template <class F>
class Variadic : public Operator {
 public:
  explicit Variadic(const Attributes& a) { check_attributes(a, {}, F::place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, std::max<size_t>(1, in.size()), std::max<size_t>(1, in.size()), F::place);
    check_same_type(in, F::place);
    check_type(in[0], F::types, F::place);
    Shape shape = in[0].shape;
    for (const TensorSpec& spec : in) shape = broadcast(shape, spec.shape, F::place);
    return {output_spec(in[0].dtype, shape.sizes(), F::place)};
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const TensorSpec y = infer(in)[0];
    const double each = static_cast<double>(in.size()) * static_cast<double>(y.elements());
    return {each, (pass == Pass::forward ? 1 : 2) * input_bytes(in) + y.bytes()};
  }

  static std::vector<Parameter> parameters() {
    return {{"count", "number of inputs", 3},
            {"shape", "shape of each", "64x256x14x14"},
            {"last", "shape of the last, where it differs", ""}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const int64_t count = v.integer("count", 3);
    if (count < 1 || count > 1000) throw UsageError("{} count is {}; 1 to 1000 are legal", F::place, count);
    const Shape shape = parse_shape(v.text("shape", ""));
    const std::string last = v.text("last", "");
    OperatorCase one;
    one.inputs.assign(static_cast<size_t>(count), {.spec = {type, shape}});
    if (!last.empty()) one.inputs.back().spec.shape = parse_shape(last);
    // Ranges differ a little: on one grid the inputs would meet.
    for (size_t i = 0; i < one.inputs.size(); ++i) one.inputs[i].high = 1 + 0.01 * static_cast<double>(i * i % 7);
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"count", 1}, {"shape", "5"}},
            {{"count", 2}, {"shape", "scalar"}, {"last", "3"}},
            {{"count", 3}, {"shape", "3x4x5"}},
            {{"count", 3}, {"shape", "3x1x5"}, {"last", "7x1"}},
            {{"count", 5}, {"shape", "17x31"}, {"last", "31"}},
            {{"count", 3}, {"shape", "4x32x14x14"}}};
  }
};

template <class F>
class Total final : public Variadic<F> {
 public:
  using Variadic<F>::Variadic;

  void forward(Context& c) const override {
    const auto y = cleared(c.output(0));
    for (const Tensor& input : c.inputs) {
      const auto x = input.values<double>();
      const Broadcast at(input.shape(), c.output(0).shape());
      for (size_t i = 0; i < y.size(); ++i) y[i] += x[at(static_cast<Index>(i))];
    }
    for (double& value : y) value *= F::scale(c.inputs.size());
  }

  void backward(Context& c) const override {
    const auto dy = c.output_gradient(0).values<double>();
    for (size_t k = 0; k < c.inputs.size(); ++k)
      if (c.input_gradient(k).present())
        sum_to(c.input_gradient(k), c.output_gradient(0).shape(),
               [&](Index i) { return F::scale(c.inputs.size()) * dy[i]; });
  }

  // Mean's quotient may be stored before it is summed.
  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    const double additions =
        pass == Pass::forward ? static_cast<double>(in.size()) : readers(in[index], this->infer(in)[0]);
    return {.terms = additions - 1,
            .units = F::units,
            .exact = F::exact,
            .stored_outputs = pass == Pass::backward && !F::exact};
  }
};

template <class F>
class Extreme final : public Variadic<F> {
 public:
  using Variadic<F>::Variadic;

  void forward(Context& c) const override {
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      const auto y = c.output(0).values<T>();
      for (size_t k = 0; k < c.inputs.size(); ++k) {
        const auto x = c.inputs[k].values<T>();
        const Broadcast at(c.inputs[k].shape(), c.output(0).shape());
        for (size_t i = 0; i < y.size(); ++i) {
          const T value = x[at(static_cast<Index>(i))];
          if (k == 0 || F::wins(value, y[i])) y[i] = value;
        }
      }
    });
  }

  void backward(Context& c) const override {
    const auto dy = c.output_gradient(0).values<double>();
    const Contest contest(c);
    for (size_t k = 0; k < c.inputs.size(); ++k)
      if (c.input_gradient(k).present())
        sum_to(c.input_gradient(k), c.output_gradient(0).shape(),
               [&](Index i) { return contest.winner(i) == k ? dy[i] : 0; });
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    if (pass == Pass::forward) return {.terms = 0, .units = 0, .exact = true};
    return {.terms = readers(in[index], this->infer(in)[0]) - 1, .units = elementary_units};
  }

  // Among equal values others may choose another winner, or share: then all of dy is in doubt.
  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    if (pass == Pass::forward) return c.output(0).cast(DType::f64);
    const auto dy = c.output_gradient(0).values<double>();
    const Contest contest(c);
    Tensor scale(DType::f64, c.input(index).shape());
    sum_to(scale, c.output_gradient(0).shape(), [&](Index i) {
      if (!contest.equals_best(i, index)) return 0.0;
      return std::abs(dy[i]) * (contest.tied(i) ? undecided : 1 / elementary_units);
    });
    return scale;
  }

 private:
  struct Contest {
    explicit Contest(const Context& c) {
      for (const Tensor& input : c.inputs) {
        values.push_back(input.values<double>());
        at.emplace_back(input.shape(), c.output_gradient(0).shape());
      }
    }
    double value(size_t k, Index i) const { return values[k][at[k](i)]; }
    size_t winner(Index i) const {
      size_t best = 0;
      for (size_t k = 1; k < values.size(); ++k)
        if (F::wins(value(k, i), value(best, i))) best = k;
      return best;
    }
    bool equals_best(Index i, size_t k) const { return value(k, i) == value(winner(i), i); }
    bool tied(Index i) const {
      size_t equal = 0;
      for (size_t k = 0; k < values.size(); ++k) equal += equals_best(i, k);
      return equal > 1;
    }
    std::vector<std::span<double>> values;
    std::vector<Broadcast> at;
  };
};

}  // namespace
D5_REGISTER(operators, "Sum", Total<Sum>);
D5_REGISTER(operators, "Mean", Total<Mean>);
D5_REGISTER(operators, "Max", Extreme<Max>);
D5_REGISTER(operators, "Min", Extreme<Min>);
}  // namespace d5
