// SPDX-License-Identifier: Apache-2.0
// Windows for short-time Fourier transforms (ONNX HannWindow, HammingWindow, BlackmanWindow): sums of cosines. No
// gradient.
//   y_n = a - b cos(2 pi n / M) + c cos(4 pi n / M)      M = size where periodic, else size - 1
//   Hann: 1/2, 1/2, 0      Hamming: 25/46, 21/46, 0      Blackman: 0.42, 0.5, 0.08
#include <cmath>
#include <numbers>

#include "d5/operators/known.hpp"
#include "d5/operators/onnx_type.hpp"

namespace d5 {
namespace {

class CosineWindow : public Operator {
 public:
  CosineWindow(const Attributes& a, std::string_view place, double a0, double a1, double a2)
      : place_(place),
        type_(type_attribute(a, "output_datatype", place).value_or(DType::f32)),
        periodic_(a.flag("periodic", true)),
        a_(a0),
        b_(a1),
        c_(a2) {
    check_attributes(a, {"output_datatype", "periodic"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place_);
    const Index size = known_integer(in[0], "size", place_);
    if (size < 0) throw Error("{} size is {}; at least 0 is wanted", place_, size);
    return {output_spec(type_, {size}, place_)};
  }

  void forward(Context& c) const override {
    const Index size = c.output(0).elements();
    const double period = static_cast<double>(periodic_ ? size : std::max<Index>(1, size - 1));
    Tensor window(DType::f64, {size});
    const auto y = window.values<double>();
    for (Index n = 0; n < size; ++n) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(n) / period;
      y[n] = a_ - b_ * std::cos(angle) + c_ * std::cos(2 * angle);
    }
    c.output(0).copy_from(window.cast(c.output(0).dtype()));
  }

  Cost cost(SpecSpan in, Pass) const override {
    const TensorSpec y = infer(in)[0];
    return {6 * static_cast<double>(y.elements()), y.bytes()};
  }
  // The cosines of a rounded angle below 4 pi, and sums of terms of at most 1.
  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 2, .units = 32}; }
  Tensor magnitude(const Context& c, Pass, size_t) const override {
    Tensor scale(DType::f64, c.output(0).shape());
    for (double& value : scale.values<double>()) value = 1;
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"size", "length of the window", 400}, {"periodic", "one period, without its end", true}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {known_scalar(v.integer("size", 0))},
            .attributes = {{"periodic", int64_t{v.flag("periodic", true)}}, {"output_datatype", onnx_number(type)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"size", 10}}, {{"size", 11}, {"periodic", false}}, {{"size", 1}}};
  }

 private:
  std::string_view place_;
  DType type_;
  bool periodic_;
  double a_, b_, c_;
};

struct HannWindow final : CosineWindow {
  explicit HannWindow(const Attributes& a) : CosineWindow(a, "[hann_window]", 0.5, 0.5, 0) {}
};
struct HammingWindow final : CosineWindow {
  explicit HammingWindow(const Attributes& a) : CosineWindow(a, "[hamming_window]", 25.0 / 46, 21.0 / 46, 0) {}
};
struct BlackmanWindow final : CosineWindow {
  explicit BlackmanWindow(const Attributes& a) : CosineWindow(a, "[blackman_window]", 0.42, 0.5, 0.08) {}
};

}  // namespace
D5_REGISTER(operators, "HannWindow", HannWindow);
D5_REGISTER(operators, "HammingWindow", HammingWindow);
D5_REGISTER(operators, "BlackmanWindow", BlackmanWindow);
}  // namespace d5
