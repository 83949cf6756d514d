// SPDX-License-Identifier: Apache-2.0
// The discrete Fourier transform along one axis (ONNX DFT). The last axis of X holds real, or real and imaginary parts.
//   y_k = sum over n of exp(-2 pi i k n / N) x_n      inverse: exp(+2 pi i k n / N), and divided by N
// onesided: of a real signal the first N / 2 + 1 results, since the others are their conjugates; inverse: from these to
// the real signal. N is dft_length; x is cut or continued by zeros. No gradient.
#include <algorithm>
#include <cmath>

#include "d5/operators/fourier.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[dft]";

class Dft final : public Operator {
 public:
  explicit Dft(const Attributes& a) : inverse_(a.flag("inverse", false)), onesided_(a.flag("onesided", false)) {
    check_attributes(a, {"inverse", "onesided"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 3, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const Shape& x = in[0].shape;
    if (x.rank() < 2 || x.back() < 1 || x.back() > 2)
      throw Error("{} X is {}; a last axis of 1 (real) or 2 (complex) is wanted behind the signal", place,
                  to_string(x));
    if (onesided_ && x.back() != (inverse_ ? 2 : 1))
      throw Error("{} onesided wants {} input; the last axis of X ({}) is {}", place, inverse_ ? "complex" : "real",
                  to_string(x), x.back());
    const Line line = line_of(in);
    std::vector<Index> sizes = x.sizes();
    sizes[line.axis] = line.results;
    sizes.back() = onesided_ && inverse_ ? 1 : 2;
    return {output_spec(in[0].dtype, std::move(sizes), place)};
  }

  void forward(Context& c) const override {
    const Line line = line_of(known_specs(c.inputs));
    for_each_line(c, line, [&](Index from, Index to) {
      const auto x = c.input(0).values<double>(), y = c.output(0).values<double>();
      const Index parts = c.input(0).shape().back(), size = c.input(0).shape()[line.axis];
      std::vector<std::complex<double>> signal(static_cast<size_t>(size));
      for (Index n = 0; n < size; ++n) {
        const double* value = &x[(from + n * line.inner) * parts];
        signal[n] = {value[0], parts == 2 ? value[1] : 0.0};
      }
      if (onesided_ && inverse_) signal = whole_spectrum(signal, line.length);
      const auto result = fourier(signal, line.length, line.results, inverse_);
      const Index out = c.output(0).shape().back();
      for (Index k = 0; k < line.results; ++k) {
        y[(to + k * line.inner) * out] = result[k].real();
        if (out == 2) y[(to + k * line.inner) * out + 1] = result[k].imag();
      }
    });
  }

  // As a fast transform would need them.
  Cost cost(SpecSpan in, Pass) const override {
    const double n = static_cast<double>(line_of(in).length), y = static_cast<double>(infer(in)[0].elements());
    return {5 * y * std::max(1.0, std::log2(n)), input_bytes(in) + infer(in)[0].bytes()};
  }

  Rounding rounding(SpecSpan in, Pass, size_t) const override {
    return {.terms = 2 * static_cast<double>(line_of(in).length), .units = 4};
  }

  // The sum of the absolute values of a line, whatever k.
  Tensor magnitude(const Context& c, Pass, size_t) const override {
    Tensor scale(DType::f64, c.output(0).shape());
    const Line line = line_of(known_specs(c.inputs));
    const auto out = scale.values<double>();
    for_each_line(c, line, [&](Index from, Index to) {
      const auto x = c.input(0).values<double>();
      const Index parts = c.input(0).shape().back(), of = scale.shape().back();
      double sum = 0;
      for (Index n = 0; n < c.input(0).shape()[line.axis]; ++n)
        for (Index p = 0; p < parts; ++p) sum += std::abs(x[(from + n * line.inner) * parts + p]);
      if (inverse_) sum *= (onesided_ ? 2.0 : 1.0) / static_cast<double>(line.length);
      for (Index k = 0; k < line.results; ++k)
        for (Index p = 0; p < of; ++p) out[(to + k * line.inner) * of + p] = sum;
    });
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X; its last axis is 1 (real) or 2 (complex)", "16x1024x1"},
            {"length", "length of the transform; 0: that of the axis", 0},
            {"axis", "axis that is transformed", -2},
            {"inverse", "the inverse transform", false},
            {"onesided", "the first half of the spectrum alone", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Index length = v.integer("length", 0);
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .differentiable = false},
                       length == 0 ? absent_input() : known_scalar(length),
                       known_scalar(v.integer("axis", -2))},
            .attributes = {{"inverse", int64_t{v.flag("inverse", false)}},
                           {"onesided", int64_t{v.flag("onesided", false)}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "2x7x1"}},
            {{"shape", "3x8x2"}, {"inverse", true}},
            {{"shape", "2x5x3x1"}, {"axis", 1}, {"onesided", true}, {"length", 9}},
            {{"shape", "2x5x2"}, {"onesided", true}, {"inverse", true}},
            {{"shape", "1x64x1"}, {"length", 48}}};
  }

 private:
  struct Line {
    size_t axis;
    Index length, results, inner;  // inner: elements (of one or two parts) between neighbours
  };

  Line line_of(SpecSpan in) const {
    const Shape& x = in[0].shape;
    const size_t axis = valid_axis(has(in, 2) ? known_integer(in[2], "axis", place) : -2, x.rank(), place);
    if (axis + 1 == x.rank()) throw Error("{} axis is the last one, which holds real and imaginary parts", place);
    Index length = inverse_ && onesided_ ? 2 * (x[axis] - 1) : x[axis];
    if (has(in, 1)) length = known_integer(in[1], "dft_length", place);
    if (length < 1) throw Error("{} dft_length is {}; at least 1 is wanted", place, length);
    return {axis, length, onesided_ && !inverse_ ? length / 2 + 1 : length, x.elements(axis + 1, x.rank() - 1)};
  }

  // The missing half is the conjugate of the given one.
  static std::vector<std::complex<double>> whole_spectrum(std::vector<std::complex<double>> half, Index length) {
    std::vector<std::complex<double>> whole(static_cast<size_t>(length));
    const auto given = static_cast<Index>(half.size());
    for (Index k = 0; k < length; ++k) {
      const bool second = k > length / 2;
      const Index at = second ? length - k : k;
      if (at < given) whole[k] = second ? std::conj(half[at]) : half[at];
      // A real signal has real first and middle frequencies; what they hold besides is left out.
      if (k == 0 || 2 * k == length) whole[k] = whole[k].real();
    }
    return whole;
  }

  // f(first element of a line in X, in Y), both counted in complex (or real) numbers
  template <class F>
  static void for_each_line(const Context& c, const Line& line, F&& f) {
    const Shape& x = c.input(0).shape();
    const Index outer = x.elements(0, line.axis);
    for (Index o = 0; o < outer; ++o)
      for (Index i = 0; i < line.inner; ++i) f(o * x[line.axis] * line.inner + i, o * line.results * line.inner + i);
  }

  bool inverse_, onesided_;
};

}  // namespace
D5_REGISTER(operators, "DFT", Dft);
}  // namespace d5
