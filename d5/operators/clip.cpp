// SPDX-License-Identifier: Apache-2.0
// Limits (ONNX Clip): min and max are scalars, each may be absent. Where min > max everything becomes max; NaN stays.
// A list of one number, which files have too and ONNX Runtime takes, serves as a scalar.
//   y = min(max(x, lower), upper)      dx = dy where lower <= x <= upper, else 0
#include "d5/operators/elementwise.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[clip]";

class Clip final : public Operator {
 public:
  explicit Clip(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 3, place);
    check_same_type(in, place);
    check_type(in[0], number_types, place);
    for (const size_t i : {1, 2})
      if (has(in, i) && (in[0].shape.rank() == 0 || in[i].shape != Shape{1}))
        check_rank(in[i], i == 1 ? "min" : "max", 0, place);
    return {{in[0].dtype, in[0].shape}};
  }

  void forward(Context& c) const override {
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      const Limits<T> limits(c);
      const auto x = c.input(0).values<T>(), y = c.output(0).values<T>();
      for_each_element(c.input(0).elements(), [&](Index i) {
        const T raised = limits.lower && x[i] < *limits.lower ? *limits.lower : x[i];
        y[i] = limits.upper && raised > *limits.upper ? *limits.upper : raised;
      });
    });
  }

  void backward(Context& c) const override {
    if (!c.input_gradient(0).present()) return;
    const Limits<double> limits(c);
    const auto x = c.input(0).values<double>(), dy = c.output_gradient(0).values<double>();
    const auto dx = c.input_gradient(0).values<double>();
    for (size_t i = 0; i < x.size(); ++i) dx[i] = limits.holds(x[i]) ? dy[i] : 0;
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const double elements = static_cast<double>(in[0].elements());
    return {2 * elements, input_bytes(in) + (pass == Pass::forward ? 1 : 2) * in[0].bytes()};
  }

  Rounding rounding(SpecSpan, Pass pass, size_t) const override {
    if (pass == Pass::forward) return {.terms = 0, .units = 0, .exact = true};
    return {.terms = 0, .units = elementary_units};
  }

  // At a limit others take the slope to be 0: then all of dy is in doubt.
  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    if (pass == Pass::forward || index != 0) return c.output(0).cast(DType::f64);
    const Limits<double> limits(c);
    Tensor scale(DType::f64, c.input(0).shape());
    const auto x = c.input(0).values<double>(), dy = c.output_gradient(0).values<double>();
    const auto out = scale.values<double>();
    for (size_t i = 0; i < x.size(); ++i) out[i] = limits.meets(x[i]) ? undecided * std::abs(dy[i]) : 0;
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "64x256x14x14"},
            {"min", "a lower limit is given", true},
            {"max", "an upper limit is given", true}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const TensorSpec scalar{type, Shape{}}, absent = TensorSpec::absent();
    return {.inputs = {
                {.spec = {type, parse_shape(v.text("shape", ""))}, .low = -2, .high = 2},
                {.spec = v.flag("min", true) ? scalar : absent, .low = -1.04, .high = -0.93, .differentiable = false},
                {.spec = v.flag("max", true) ? scalar : absent, .low = 0.97, .high = 1.07, .differentiable = false}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "scalar"}},
            {{"shape", "17"}, {"max", false}},
            {{"shape", "3x5"}, {"min", false}},
            {{"shape", "3x5"}, {"min", false}, {"max", false}},
            {{"shape", "2x3x7x5"}},
            {{"shape", "4x32x14x14"}}};
  }

 private:
  template <class T>
  struct Limits {
    explicit Limits(const Context& c) {
      if (c.input(1).present()) lower = c.input(1).values<T>()[0];
      if (c.input(2).present()) upper = c.input(2).values<T>()[0];
    }
    bool holds(T x) const { return (!lower || x >= *lower) && (!upper || x <= *upper); }
    bool meets(T x) const { return x == lower || x == upper; }
    std::optional<T> lower, upper;
  };
};

}  // namespace
D5_REGISTER(operators, "Clip", Clip);
}  // namespace d5
