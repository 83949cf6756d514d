// SPDX-License-Identifier: Apache-2.0
// Maximum over a sliding window of 1 to 3 axes (ONNX MaxPool). Padding never wins. Among equal values the first in
// row-major order wins, so that the gradient is defined; NaN wins over numbers.
//   y[o] = max over t of x[s(o,t)]      dx[i] = sum of dy[o] over the outputs o whose winner is i
// The second output, where it is asked for, holds the winner's index in the whole of X.
#include <algorithm>
#include <cmath>

#include "d5/core/parallel.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/operator.hpp"
#include "d5/operators/window.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[max_pool]";

class MaxPool final : public Operator {
 public:
  explicit MaxPool(const Attributes& a) : attributes_(a), column_major_(a.flag("storage_order", false)) {
    check_attributes(a, {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"},
                     place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8}, place);
    const Shape& x = in[0].shape;
    if (x.rank() < 3 || x.rank() > 5)
      throw Error("{} X is {}, of rank {}; 3 to 5 axes are wanted", place, to_string(x), x.rank());
    const Window w = window(x);
    w.check_no_empty_window(place);
    std::vector<Index> sizes{x[0], x[1]};
    for (const Index size : w.output_sizes()) sizes.push_back(size);
    return {output_spec(in[0].dtype, sizes, place), output_spec(DType::i64, sizes, place)};
  }

  void forward(Context& c) const override {
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      const auto x = c.input(0).values<T>(), y = c.output(0).values<T>();
      const Window w = window(c.input(0).shape());
      const bool wants_indices = c.output(1).present();
      for_each_winner<T>(c.input(0), w, [&](Index output, Index winner) {
        y[output] = x[winner];
        if (wants_indices) c.output(1).values<int64_t>()[output] = column_major_ ? column_major(w, winner) : winner;
      });
    });
  }

  void backward(Context& c) const override { route(c, c.output_gradient(0).values<double>(), c.input_gradient(0)); }

  Cost cost(SpecSpan in, Pass pass) const override {
    const Window w = window(in[0].shape);
    const double planes = static_cast<double>(in[0].shape[0]) * static_cast<double>(in[0].shape[1]);
    const TensorSpec y = infer(in)[0];
    if (pass == Pass::forward) return {planes * w.pairs(), in[0].bytes() + y.bytes()};
    // Backward adds each output gradient once; it reads X (or indices, which are as large as Y at least) to find where.
    return {static_cast<double>(y.elements()), 2 * y.bytes() + in[0].bytes()};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    if (pass == Pass::forward) return {.terms = 0, .units = 0, .exact = true};
    return {.terms = window(in[0].shape).most_readers(), .units = 0, .exact = true};
  }

  // On absolute values other elements would win: the scale of dx is |dy| sent to the real winners.
  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    if (pass == Pass::forward) return {};
    std::vector<double> absolute;
    for (const double value : c.output_gradient(0).values<double>()) absolute.push_back(std::abs(value));
    Tensor scale(DType::f64, c.input(0).shape());
    route(c, absolute, scale);
    return scale;
  }

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all{{"n", "images", 16},
                               {"c", "channels", 64},
                               {"size", "input sizes: 1 to 3 of them decide the dimension", "112x112"},
                               {"window", "window sizes", "3x3"},
                               {"ceil_mode", "a last window may reach beyond the padded input", false},
                               {"storage_order", "1: indices count column-major", 0},
                               {"indices", "also make the output of indices", false}};
    for (Parameter& parameter : window_parameters()) all.push_back(std::move(parameter));
    return all;
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const auto size = window_sizes(v, "size");
    std::vector<Index> x{v.integer("n", 0), v.integer("c", 0)};
    x.insert(x.end(), size.begin(), size.end());
    OperatorCase one{.attributes = window_attributes(v, size.size())};
    one.inputs.push_back({.spec = {type, Shape(std::move(x))}});
    one.attributes.set("kernel_shape", sizes(v, "window", size.size()));
    one.attributes.set("ceil_mode", int64_t{v.flag("ceil_mode", false)});
    one.attributes.set("storage_order", v.integer("storage_order", 0));
    one.outputs = v.flag("indices", false) ? 2 : 1;
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"n", 1}, {"c", 1}, {"size", "1x1"}, {"window", "1x1"}},
            {{"n", 2}, {"c", 3}, {"size", "7x5"}, {"window", "2x2"}, {"stride", "2"}},
            {{"n", 1}, {"c", 2}, {"size", "9x8"}, {"window", "3x3"}, {"stride", "2"}, {"pad", "1"}},
            {{"n", 1}, {"c", 3}, {"size", "6x7"}, {"window", "3x3"}},
            {{"n", 2}, {"c", 2}, {"size", "10x9"}, {"window", "2x1"}, {"stride", "3x4"}},
            {{"n", 1}, {"c", 2}, {"size", "8x7"}, {"window", "3x2"}, {"pads", "0x1x2x0"}},
            {{"n", 1}, {"c", 2}, {"size", "8x7"}, {"window", "3x3"}, {"stride", "2"}, {"ceil_mode", true}},
            {{"n", 1}, {"c", 1}, {"size", "11x9"}, {"window", "3x2"}, {"dilation", "2x3"}},
            {{"n", 1}, {"c", 2}, {"size", "7x6"}, {"window", "2x3"}, {"stride", "2"}, {"auto_pad", "SAME_LOWER"}},
            {{"n", 3}, {"c", 2}, {"size", "17"}, {"window", "4"}, {"stride", "3"}},
            {{"n", 1}, {"c", 2}, {"size", "5x4x6"}, {"window", "2x3x2"}, {"stride", "2x1x2"}, {"indices", true}},
            {{"n", 1}, {"c", 32}, {"size", "56x56"}, {"window", "3x3"}, {"stride", "2"}, {"pad", "1"}}};
  }

 private:
  Window window(const Shape& x) const {
    const auto kernel = attributes_.integers("kernel_shape");
    if (kernel.size() + 2 != x.rank())
      throw Error("{} kernel_shape has {} sizes; {} are wanted for X of {}", place, kernel.size(), x.rank() - 2,
                  to_string(x));
    return {attributes_, std::vector<Index>(x.begin() + 2, x.end()), kernel, place};
  }

  // f(output element, winning input element), both counted in the whole tensor; planes on several threads.
  template <class T, class F>
  static void for_each_winner(const Tensor& input, const Window& w, F&& f) {
    const T* x = input.values<T>().data();
    const Index planes = input.shape()[0] * input.shape()[1], in = w.input_elements(), out = w.output_elements();
    parallel_for(planes, std::max<Index>(1, (1 << 20) / std::max<Index>(1, out * w.taps())),
                 [&](Index first, Index last) {
                   for (Index plane = first; plane < last; ++plane)
                     for (Index o = 0; o < out; ++o) {
                       Index best = -1;
                       w.for_each_tap(o, [&](Index i, Index) {
                         const T value = x[plane * in + i];
                         if (best < 0 || value > x[best] || value != value) best = plane * in + i;
                       });
                       f(plane * out + o, best);
                     }
                 });
  }

  void route(const Context& c, std::span<const double> dy, const Tensor& to) const {
    const auto dx = cleared(to);
    for_each_winner<double>(c.input(0), window(c.input(0).shape()),
                            [&](Index output, Index winner) { dx[winner] += dy[output]; });
  }

  // The index of an element where the sliding axes are counted with the first one fastest.
  static Index column_major(const Window& w, Index element) {
    const Index plane = element / w.input_elements(), rest = element % w.input_elements();
    const Index a = rest / (w.input[1] * w.input[2]), b = rest / w.input[2] % w.input[1], c = rest % w.input[2];
    return plane * w.input_elements() + (c * w.input[1] + b) * w.input[0] + a;
  }

  Attributes attributes_;
  bool column_major_;
};

}  // namespace
D5_REGISTER(operators, "MaxPool", MaxPool);
}  // namespace d5
