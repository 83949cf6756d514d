// SPDX-License-Identifier: Apache-2.0
// Mean over a sliding window of 1 to 3 axes (ONNX AveragePool). Output o reads, with tap t, input s(o, t).
//   y[o] = sum over t of x[s(o,t)] / n(o)      dx[i] = sum of dy[o] / n(o) over the outputs o that read i
// n(o) counts the taps inside the input; with count_include_pad those in the padding too, but never those that
// ceil_mode lets reach beyond the padding.
#include <algorithm>

#include "d5/core/parallel.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"
#include "d5/operators/window.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[average_pool]";

class AveragePool final : public Operator {
 public:
  explicit AveragePool(const Attributes& a) : attributes_(a), include_pad_(a.flag("count_include_pad", false)) {
    check_attributes(a, {"auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"},
                     place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const Shape& x = in[0].shape;
    if (x.rank() < 3 || x.rank() > 5)
      throw Error("{} X is {}, of rank {}; 3 to 5 axes are wanted", place, to_string(x), x.rank());
    const Window w = window(x);
    if (!include_pad_) w.check_no_empty_window(place);
    std::vector<Index> sizes{x[0], x[1]};
    for (const Index size : w.output_sizes()) sizes.push_back(size);
    return {output_spec(in[0].dtype, sizes, place)};
  }

  void forward(Context& c) const override {
    const Window w = window(c.input(0).shape());
    const auto counts = all_counts(w);
    const auto x = c.input(0).values<double>(), y = c.output(0).values<double>();
    for_each_plane(c.input(0).shape(), w, [&](Index plane) {
      for (Index o = 0; o < w.output_elements(); ++o) {
        double sum = 0;
        w.for_each_tap(o, [&](Index i, Index) { sum += x[plane * w.input_elements() + i]; });
        y[plane * w.output_elements() + o] = sum / counts[o];
      }
    });
  }

  void backward(Context& c) const override {
    const Window w = window(c.input(0).shape());
    const auto counts = all_counts(w);
    const auto dy = c.output_gradient(0).values<double>(), dx = c.input_gradient(0).values<double>();
    for_each_plane(c.input(0).shape(), w, [&](Index plane) {
      double* to = &dx[plane * w.input_elements()];
      std::fill_n(to, w.input_elements(), 0.0);
      for (Index o = 0; o < w.output_elements(); ++o)
        w.for_each_tap(
            o, [&, share = dy[plane * w.output_elements() + o] / counts[o]](Index i, Index) { to[i] += share; });
    });
  }

  bool forward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    const Window w = window(c.input(0).shape());
    const auto x = c.input(0).values<double>();
    for (size_t i = 0; i < at.size(); ++i) {
      const Index plane = at[i] / w.output_elements(), o = at[i] % w.output_elements();
      double sum = 0;
      w.for_each_tap(o, [&](Index element, Index) { sum += x[plane * w.input_elements() + element]; });
      values[i] = sum / count(w, o);
    }
    return true;
  }

  bool backward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    const Window w = window(c.input(0).shape());
    const auto dy = c.output_gradient(0).values<double>();
    for (size_t i = 0; i < at.size(); ++i) {
      const Index plane = at[i] / w.input_elements();
      values[i] = 0;
      w.for_each_reader(at[i] % w.input_elements(),
                        [&](Index o, Index) { values[i] += dy[plane * w.output_elements() + o] / count(w, o); });
    }
    return true;
  }

  // An addition per tap and a division per output; backward the same.
  Cost cost(SpecSpan in, Pass) const override {
    const double planes = static_cast<double>(in[0].shape[0]) * static_cast<double>(in[0].shape[1]);
    const TensorSpec y = infer(in)[0];
    return {planes * window(in[0].shape).pairs() + static_cast<double>(y.elements()), in[0].bytes() + y.bytes()};
  }

  // Units: the division, or the reciprocal and a product.
  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    const Window w = window(in[0].shape);
    return {.terms = pass == Pass::forward ? static_cast<double>(w.taps()) : w.most_readers(), .units = 2};
  }

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all{{"n", "images", 16},
                               {"c", "channels", 64},
                               {"size", "input sizes: 1 to 3 of them decide the dimension", "56x56"},
                               {"window", "window sizes", "2x2"},
                               {"count_include_pad", "the padding counts in the mean", false},
                               {"ceil_mode", "a last window may reach beyond the padded input", false}};
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
    one.attributes.set("count_include_pad", int64_t{v.flag("count_include_pad", false)});
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"n", 1}, {"c", 1}, {"size", "1x1"}, {"window", "1x1"}},
            {{"n", 2}, {"c", 3}, {"size", "7x5"}, {"window", "2x2"}, {"stride", "2"}},
            {{"n", 1}, {"c", 2}, {"size", "9x8"}, {"window", "3x3"}, {"stride", "2"}, {"pad", "1"}},
            {{"n", 1},
             {"c", 2},
             {"size", "9x8"},
             {"window", "3x3"},
             {"stride", "2"},
             {"pad", "1"},
             {"count_include_pad", true}},
            {{"n", 1}, {"c", 2}, {"size", "8x7"}, {"window", "3x2"}, {"pads", "0x1x2x0"}, {"count_include_pad", true}},
            {{"n", 1}, {"c", 2}, {"size", "8x7"}, {"window", "3x3"}, {"stride", "2"}, {"ceil_mode", true}},
            {{"n", 1},
             {"c", 2},
             {"size", "6x9"},
             {"window", "3x3"},
             {"stride", "2"},
             {"pad", "1x0"},
             {"ceil_mode", true},
             {"count_include_pad", true}},
            {{"n", 1}, {"c", 1}, {"size", "11x9"}, {"window", "3x2"}, {"dilation", "2x3"}},
            {{"n", 1}, {"c", 2}, {"size", "7x6"}, {"window", "2x3"}, {"stride", "2"}, {"auto_pad", "SAME_LOWER"}},
            {{"n", 3}, {"c", 2}, {"size", "17"}, {"window", "4"}, {"stride", "3"}},
            {{"n", 1}, {"c", 2}, {"size", "5x4x6"}, {"window", "2x3x2"}, {"stride", "2x1x2"}},
            {{"n", 1}, {"c", 32}, {"size", "28x28"}, {"window", "3x3"}, {"stride", "2"}, {"pad", "1"}}};
  }

 private:
  Window window(const Shape& x) const {
    const auto kernel = attributes_.integers("kernel_shape");
    if (kernel.size() + 2 != x.rank())
      throw Error("{} kernel_shape has {} sizes; {} are wanted for X of {}", place, kernel.size(), x.rank() - 2,
                  to_string(x));
    return {attributes_, std::vector<Index>(x.begin() + 2, x.end()), kernel, place};
  }

  double count(const Window& w, Index output) const {
    if (include_pad_) return static_cast<double>(w.padded_taps(output));
    double taps = 0;
    w.for_each_tap(output, [&](Index, Index) { ++taps; });
    return taps;
  }
  std::vector<double> all_counts(const Window& w) const {
    std::vector<double> counts(static_cast<size_t>(w.output_elements()));
    for (size_t o = 0; o < counts.size(); ++o) counts[o] = count(w, static_cast<Index>(o));
    return counts;
  }

  template <class F>
  static void for_each_plane(const Shape& x, const Window& w, F&& f) {
    parallel_for(x[0] * x[1], std::max<Index>(1, (1 << 20) / std::max<Index>(1, w.output_elements() * w.taps())),
                 [&](Index first, Index last) {
                   for (Index plane = first; plane < last; ++plane) f(plane);
                 });
  }

  Attributes attributes_;
  bool include_pad_;
};

}  // namespace
D5_REGISTER(operators, "AveragePool", AveragePool);
}  // namespace d5
