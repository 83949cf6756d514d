// SPDX-License-Identifier: Apache-2.0
// Numbers at equal distances (ONNX Range), as many as lie before limit. No gradient.
//   y_i = start + i delta      i = 0 .. ceil((limit - start) / delta) - 1
// stash_type is the type that kernels compute f16 and bf16 in; here it is double in any case.
#include <algorithm>
#include <cmath>

#include "d5/operators/known.hpp"
#include "d5/operators/product.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[range]";

class Range final : public Operator {
 public:
  explicit Range(const Attributes& a) { check_attributes(a, {"stash_type"}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 3, 3, place);
    check_same_type(in, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i16, DType::i32, DType::i64}, place);
    static constexpr const char* names[] = {"start", "limit", "delta"};
    double values[3];
    for (size_t i = 0; i < 3; ++i) {
      if (in[i].elements() != 1)
        throw Error("{} {} is {}; one value is wanted", place, names[i], to_string(in[i].shape));
      if (!in[i].known)
        throw UnknownValue("{} the value of {} must be known before the run; it is not", place, names[i]);
      values[i] = in[i].known->cast(DType::f64).values<double>()[0];
    }
    if (values[2] == 0) throw Error("{} delta is 0; it must not be", place);
    const double count = std::max(0.0, std::ceil((values[1] - values[0]) / values[2]));
    if (!(count < 0x1p56))
      throw Error("{} from {} to {} by {} there are {} numbers", place, values[0], values[1], values[2], count);
    return with_known(*this, in, {output_spec(in[0].dtype, {static_cast<Index>(count)}, place)});
  }

  void forward(Context& c) const override {
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      const T start = c.input(0).values<T>()[0], delta = c.input(2).values<T>()[0];
      const auto y = c.output(0).values<T>();
      for (size_t i = 0; i < y.size(); ++i) y[i] = multiply_add(start, static_cast<T>(i), delta);
    });
  }

  Cost cost(SpecSpan in, Pass) const override {
    const TensorSpec y = infer(in)[0];
    return {2.0 * static_cast<double>(y.elements()), input_bytes(in) + y.bytes()};
  }

  // A product and a sum.
  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 1, .units = 1}; }

  // start and delta may differ in sign: |start| + i |delta|.
  Tensor magnitude(const Context& c, Pass, size_t) const override {
    if (c.output(0).dtype() != DType::f64) return {};
    Tensor scale(DType::f64, c.output(0).shape());
    const double start = c.input(0).values<double>()[0], delta = c.input(2).values<double>()[0];
    for (Index i = 0; i < scale.elements(); ++i)
      scale.values<double>()[i] = std::abs(start) + static_cast<double>(i) * std::abs(delta);
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {
        {"start", "first number", 0.0}, {"limit", "where to stop, not included", 4096.0}, {"delta", "distance", 1.0}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    OperatorCase one;
    for (const char* name : {"start", "limit", "delta"})
      one.inputs.push_back({.spec = known_spec(Tensor::scalar(v.real(name, 0), type)), .differentiable = false});
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"start", 3}, {"limit", 9}, {"delta", 3}},
            {{"start", 10}, {"limit", 4}, {"delta", -2}},
            {{"start", -1}, {"limit", 2}, {"delta", 0.25}},
            {{"start", 0}, {"limit", 1}, {"delta", 5}},
            {{"limit", 250}}};
  }
};

}  // namespace
D5_REGISTER(operators, "Range", Range);
}  // namespace d5
