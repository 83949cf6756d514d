// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of a window that slides over a signal (ONNX STFT). X is batch x length x 1 (real) or 2 (complex).
//   y[b, f, k] = sum over n < L of exp(-2 pi i k n / L) w_n x[b, f step + n]      onesided: k from 0 to L / 2
// No gradient.
#include <algorithm>
#include <cmath>

#include "d5/operators/fourier.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[stft]";

class Stft final : public Operator {
 public:
  explicit Stft(const Attributes& a) : onesided_(a.flag("onesided", true)) { check_attributes(a, {"onesided"}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 4, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const Shape& x = in[0].shape;
    if (x.rank() != 3 || x[2] < 1 || x[2] > 2)
      throw Error("{} X is {}; batch x length x 1 (real) or 2 (complex) is wanted", place, to_string(x));
    if (has(in, 2)) check_rank(in[2], "window", 1, place);
    const Frames f = frames(in);
    return {output_spec(in[0].dtype, {x[0], f.count, f.results, 2}, place)};
  }

  void forward(Context& c) const override {
    for_each_frame(
        c, [](double x) { return x; },
        [&](const std::vector<std::complex<double>>& signal, const Frames& f, Index first) {
          const auto y = c.output(0).values<double>();
          const auto result = fourier(signal, f.length, f.results, false);
          for (Index k = 0; k < f.results; ++k) {
            y[2 * (first + k)] = result[k].real();
            y[2 * (first + k) + 1] = result[k].imag();
          }
        });
  }

  // As fast transforms would need them.
  Cost cost(SpecSpan in, Pass) const override {
    const Frames f = frames(in);
    const double n = static_cast<double>(f.length), all = static_cast<double>(in[0].shape[0] * f.count);
    return {all * n * (1 + 5 * std::max(1.0, std::log2(n))), input_bytes(in) + infer(in)[0].bytes()};
  }

  Rounding rounding(SpecSpan in, Pass, size_t) const override {
    return {.terms = 2 * static_cast<double>(frames(in).length), .units = 5};
  }

  Tensor magnitude(const Context& c, Pass, size_t) const override {
    Tensor scale(DType::f64, c.output(0).shape());
    for_each_frame(
        c, [](double x) { return std::abs(x); },
        [&](const std::vector<std::complex<double>>& signal, const Frames& f, Index first) {
          double sum = 0;
          for (const auto& value : signal) sum += value.real() + value.imag();
          std::ranges::fill(scale.values<double>().subspan(2 * first, 2 * f.results), sum);
        });
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X; its last axis is 1 (real) or 2 (complex)", "4x16000x1"},
            {"step", "samples between frames", 160},
            {"length", "samples of a frame", 400},
            {"window", "multiply by a window", true},
            {"onesided", "the first half of the spectrum alone", true}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Index length = v.integer("length", 0);
    const bool window = v.flag("window", true);
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .differentiable = false},
                       known_scalar(v.integer("step", 1)),
                       window ? OperatorInput{.spec = {type, {length}}, .differentiable = false} : absent_input(),
                       known_scalar(length)},
            .attributes = {{"onesided", int64_t{v.flag("onesided", true)}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "1x16x1"}, {"step", 4}, {"length", 8}},
            {{"shape", "2x13x2"}, {"step", 3}, {"length", 5}, {"onesided", false}},
            {{"shape", "1x64x1"}, {"step", 16}, {"length", 16}, {"window", false}}};
  }

 private:
  struct Frames {
    Index length, step, count, results;
  };

  Frames frames(SpecSpan in) const {
    const Index size = in[0].shape[1];
    Frames f{};
    f.step = known_integer(in[1], "frame_step", place);
    f.length = has(in, 3) ? known_integer(in[3], "frame_length", place) : has(in, 2) ? in[2].shape[0] : size;
    if (f.step < 1 || f.length < 1 || f.length > size)
      throw Error("{} frame_step is {} and frame_length {}; at least 1 is wanted, and a length of at most {}", place,
                  f.step, f.length, size);
    if (has(in, 2) && in[2].shape[0] != f.length)
      throw Error("{} window has {} values; {} are wanted, one for each of a frame", place, in[2].shape[0], f.length);
    f.count = (size - f.length) / f.step + 1;
    f.results = onesided_ ? f.length / 2 + 1 : f.length;
    return f;
  }

  // f(windowed frame, geometry, first result), each part of a number after `part`
  template <class Part, class F>
  void for_each_frame(const Context& c, Part&& part, F&& f) const {
    const Frames all = frames(known_specs(c.inputs));
    const Shape& shape = c.input(0).shape();
    const auto x = c.input(0).values<double>();
    for (Index b = 0; b < shape[0]; ++b)
      for (Index frame = 0; frame < all.count; ++frame) {
        std::vector<std::complex<double>> signal(static_cast<size_t>(all.length));
        for (Index n = 0; n < all.length; ++n) {
          const double* value = &x[(b * shape[1] + frame * all.step + n) * shape[2]];
          const double weight = c.input(2).present() ? c.input(2).values<double>()[n] : 1;
          signal[n] = {part(weight * value[0]), part(shape[2] == 2 ? weight * value[1] : 0.0)};
        }
        f(signal, all, (b * all.count + frame) * all.results);
      }
  }

  bool onesided_;
};

}  // namespace
D5_REGISTER(operators, "STFT", Stft);
}  // namespace d5
