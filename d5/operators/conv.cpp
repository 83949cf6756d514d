// SPDX-License-Identifier: Apache-2.0
// Convolution over 1 to 3 axes, with groups (ONNX Conv). Output o reads, with tap t, input s(o, t) = o stride - pad + t
// dilation.
//   Y[n,k,o]  = B[k] + sum over c, t of W[k,c,t] X[n,c,s(o,t)]          c: the channels of k's group
//   dX[n,c,i] = sum over k, t with s(o,t) = i of W[k,c,t] dY[n,k,o]
//   dW[k,c,t] = sum over n, o of dY[n,k,o] X[n,c,s(o,t)]                dB[k] = sum over n, o of dY[n,k,o]
#include "d5/core/parallel.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/operator.hpp"
#include "d5/operators/window.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[conv]";

std::vector<Index> spatial(const Shape& s) { return {s.begin() + 2, s.end()}; }

class Conv final : public Operator {
 public:
  explicit Conv(const Attributes& a) : attributes_(a), groups_(a.integer("group", 1)) {
    check_attributes(a, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 3, place);
    check_same_type(in, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const Shape &x = in[0].shape, &w = in[1].shape;
    if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank())
      throw Error("{} X is {} and W is {}: both are wanted with the same 3 to 5 axes", place, to_string(x),
                  to_string(w));
    if (groups_ < 1 || x[1] % groups_ != 0 || w[0] % groups_ != 0)
      throw Error("{} group is {}, which does not divide the {} channels of X ({}) and the {} of W ({})", place,
                  groups_, x[1], to_string(x), w[0], to_string(w));
    if (w[1] != x[1] / groups_)
      throw Error("{} X is {} and W is {}: with group {} W takes {} channels, and {} are there", place, to_string(x),
                  to_string(w), groups_, w[1], x[1] / groups_);
    if (const auto kernel = attributes_.integers("kernel_shape"); !kernel.empty() && kernel != spatial(w))
      throw Error("{} kernel_shape is {} but W is {}", place, to_string(Shape(kernel)), to_string(w));
    if (has(in, 2) && in[2].shape != Shape{w[0]})
      throw Error("{} B is {}; {} values are wanted, one for each output channel", place, to_string(in[2].shape), w[0]);
    std::vector<Index> sizes{x[0], w[0]};
    for (const Index size : window(x, w).output_sizes()) sizes.push_back(size);
    return {output_spec(in[0].dtype, std::move(sizes), place)};
  }

  void forward(Context& c) const override {
    const Geometry g = geometry(c);
    const double *x = data(c.input(0)), *w = data(c.input(1)), *bias = data(c.input(2));
    double* y = data(c.output(0));
    parallel_for(g.n * g.k, grain(g), [&](Index first, Index last) {
      for (Index plane = first; plane < last; ++plane) {
        const Index k = plane % g.k;
        double* sums = y + plane * g.out;
        std::fill_n(sums, g.out, bias ? bias[k] : 0.0);
        for (Index c = 0; c < g.group_c; ++c) {
          const double* from = x + g.x_plane(plane / g.k, k / g.group_k, c) * g.in;
          const double* weights = w + (k * g.group_c + c) * g.taps;
          for (Index tap = 0; tap < g.taps; ++tap)
            g.window.for_each_run(tap, [&, weight = weights[tap]](Index o, Index i, Index count) {
              for (Index j = 0; j < count; ++j) sums[o + j] += weight * from[i + j * g.stride];
            });
        }
      }
    });
  }

  void backward(Context& c) const override {
    const Geometry g = geometry(c);
    if (c.input_gradient(0).present()) input_gradient(g, c);
    if (c.input_gradient(1).present()) weight_gradient(g, c);
    if (c.input_gradient(2).present())
      for (Index k = 0; k < g.k; ++k) data(c.input_gradient(2))[k] = bias_gradient(g, c, k);
  }

  bool forward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    const Geometry g = geometry(c);
    const double *x = data(c.input(0)), *w = data(c.input(1)), *bias = data(c.input(2));
    for (size_t i = 0; i < at.size(); ++i) {
      const Index plane = at[i] / g.out, k = plane % g.k;
      double sum = bias ? bias[k] : 0.0;
      for (Index c = 0; c < g.group_c; ++c) {
        const double* from = x + g.x_plane(plane / g.k, k / g.group_k, c) * g.in;
        const double* weights = w + (k * g.group_c + c) * g.taps;
        g.window.for_each_tap(at[i] % g.out, [&](Index element, Index tap) { sum += weights[tap] * from[element]; });
      }
      values[i] = sum;
    }
    return true;
  }

  bool backward_at(const Context& c, size_t input, std::span<const Index> at, std::span<double> values) const override {
    const Geometry g = geometry(c);
    for (size_t i = 0; i < at.size(); ++i)
      values[i] = input == 0   ? input_gradient_at(g, c, at[i])
                  : input == 1 ? weight_gradient_at(g, c, at[i] / g.taps, at[i] % g.taps)
                               : bias_gradient(g, c, at[i]);
    return true;
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const Geometry g = geometry(in[0].shape, in[1].shape);
    const TensorSpec y = infer(in)[0];
    const double products = 2.0 * g.n * g.k * g.group_c * g.window.pairs();
    const double additions = has(in, 2) ? static_cast<double>(y.elements()) : 0;
    if (pass == Pass::forward) return {products + additions, input_bytes(in) + y.bytes()};
    const double bias_bytes = has(in, 2) ? in[2].bytes() : 0;  // its gradient is written, itself is not read
    return {2 * products + additions, 2 * (in[0].bytes() + in[1].bytes()) + y.bytes() + bias_bytes};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    const Geometry g = geometry(in[0].shape, in[1].shape);
    if (pass == Pass::forward) return {.terms = 1.0 * g.group_c * g.taps + (has(in, 2) ? 1 : 0), .exact = true};
    if (index == 0) return {.terms = g.group_k * g.window.most_readers(), .exact = true};
    return {.terms = 1.0 * g.n * g.out, .exact = true};
  }

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all{{"n", "images", 16},
                               {"c", "input channels", 64},
                               {"size", "input sizes: 1 to 3 of them decide the dimension", "56x56"},
                               {"k", "output channels", 64},
                               {"filter", "filter sizes", "3x3"},
                               {"groups", "groups of channels", 1},
                               {"bias", "add a bias to each output channel", true}};
    for (Parameter& parameter : window_parameters()) all.push_back(std::move(parameter));
    return all;
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Index n = v.integer("n", 0), c = v.integer("c", 0), k = v.integer("k", 0), groups = v.integer("groups", 1);
    const auto size = window_sizes(v, "size"), kernel = sizes(v, "filter", size.size());
    if (groups < 1 || c % groups != 0)
      throw UsageError("{} groups is {}; it must divide the {} channels", place, groups, c);
    std::vector<Index> x{n, c}, w{k, c / groups};
    x.insert(x.end(), size.begin(), size.end());
    w.insert(w.end(), kernel.begin(), kernel.end());
    OperatorCase one{.attributes = window_attributes(v, size.size())};
    one.attributes.set("group", groups);
    one.attributes.set("kernel_shape", kernel);
    one.inputs.push_back({.spec = {type, Shape(std::move(x))}});
    one.inputs.push_back({.spec = {type, Shape(std::move(w))}, .parameter = true});
    if (v.flag("bias", true)) one.inputs.push_back({.spec = {type, Shape{k}}, .parameter = true});
    return one;
  }

  static std::vector<Attributes> cases() {
    return {
        {{"n", 1}, {"c", 1}, {"size", "1x1"}, {"k", 1}, {"filter", "1x1"}},
        {{"n", 2}, {"c", 3}, {"size", "7x5"}, {"k", 4}, {"filter", "3x3"}, {"pad", "1"}},
        {{"n", 1}, {"c", 5}, {"size", "6x9"}, {"k", 7}, {"filter", "1x1"}, {"stride", "2"}, {"bias", false}},
        {{"n", 2}, {"c", 2}, {"size", "11x10"}, {"k", 3}, {"filter", "2x3"}, {"stride", "3x4"}},
        {{"n", 1}, {"c", 3}, {"size", "8x6"}, {"k", 2}, {"filter", "3x2"}, {"pads", "0x1x2x1"}},
        {{"n", 2}, {"c", 6}, {"size", "9x9"}, {"k", 6}, {"filter", "3x3"}, {"pad", "1"}, {"groups", 6}},
        {{"n", 1}, {"c", 4}, {"size", "10x8"}, {"k", 6}, {"filter", "3x3"}, {"groups", 2}, {"stride", "2x1"}},
        {{"n", 1}, {"c", 2}, {"size", "11x9"}, {"k", 3}, {"filter", "3x2"}, {"dilation", "2x3"}, {"pad", "2x1"}},
        {{"n", 2}, {"c", 3}, {"size", "13"}, {"k", 4}, {"filter", "5"}, {"stride", "2"}, {"pad", "2"}},
        {{"n", 1}, {"c", 2}, {"size", "5x6x4"}, {"k", 3}, {"filter", "3x2x3"}, {"stride", "1x2x1"}, {"pad", "1x0x1"}},
        {{"n", 1}, {"c", 2}, {"size", "8x7"}, {"k", 2}, {"filter", "3x4"}, {"stride", "2"}, {"auto_pad", "SAME_UPPER"}},
        {{"n", 1}, {"c", 64}, {"size", "14x14"}, {"k", 64}, {"filter", "3x3"}, {"pad", "1"}}};
  }

 private:
  struct Geometry {
    Window window;
    Index n, c, k, group_c, group_k, in, out, taps, stride;
    Index x_plane(Index image, Index group, Index channel) const { return image * c + group * group_c + channel; }
    Index y_plane(Index image, Index group, Index channel) const { return image * k + group * group_k + channel; }
  };

  Window window(const Shape& x, const Shape& w) const { return {attributes_, spatial(x), spatial(w), place}; }
  Geometry geometry(const Shape& x, const Shape& w) const {
    const Window all = window(x, w);
    return {all,
            x[0],
            x[1],
            w[0],
            x[1] / groups_,
            w[0] / groups_,
            all.input_elements(),
            all.output_elements(),
            all.taps(),
            all.stride[2]};
  }
  Geometry geometry(const Context& c) const { return geometry(c.input(0).shape(), c.input(1).shape()); }

  static double* data(const Tensor& t) { return t.present() ? t.values<double>().data() : nullptr; }
  // Planes in one range: about a million multiplications.
  static Index grain(const Geometry& g) {
    return std::max<Index>(1, (1 << 20) / std::max<Index>(1, g.group_c * g.taps * g.out));
  }

  static void input_gradient(const Geometry& g, const Context& c) {
    const double *w = data(c.input(1)), *dy = data(c.output_gradient(0));
    double* dx = cleared(c.input_gradient(0)).data();
    parallel_for(g.n * g.c, grain(g), [&](Index first, Index last) {
      for (Index plane = first; plane < last; ++plane) {
        const Index group = plane % g.c / g.group_c, c = plane % g.group_c;
        double* sums = dx + plane * g.in;
        for (Index k = 0; k < g.group_k; ++k) {
          const double* from = dy + g.y_plane(plane / g.c, group, k) * g.out;
          const double* weights = w + ((group * g.group_k + k) * g.group_c + c) * g.taps;
          for (Index tap = 0; tap < g.taps; ++tap)
            g.window.for_each_run(tap, [&, weight = weights[tap]](Index o, Index i, Index count) {
              for (Index j = 0; j < count; ++j) sums[i + j * g.stride] += weight * from[o + j];
            });
        }
      }
    });
  }

  static double input_gradient_at(const Geometry& g, const Context& c, Index at) {
    const double *w = data(c.input(1)), *dy = data(c.output_gradient(0));
    const Index plane = at / g.in, group = plane % g.c / g.group_c, channel = plane % g.group_c;
    double sum = 0;
    for (Index k = 0; k < g.group_k; ++k) {
      const double* from = dy + g.y_plane(plane / g.c, group, k) * g.out;
      const double* weights = w + ((group * g.group_k + k) * g.group_c + channel) * g.taps;
      g.window.for_each_reader(at % g.in, [&](Index element, Index tap) { sum += weights[tap] * from[element]; });
    }
    return sum;
  }

  static void weight_gradient(const Geometry& g, const Context& c) {
    double* dw = data(c.input_gradient(1));
    const Index work = std::max<Index>(1, g.taps * g.n * g.out);
    parallel_for(g.k * g.group_c, std::max<Index>(1, (1 << 20) / work), [&](Index first, Index last) {
      for (Index pair = first; pair < last; ++pair)
        for (Index tap = 0; tap < g.taps; ++tap) dw[pair * g.taps + tap] = weight_gradient_at(g, c, pair, tap);
    });
  }

  // `pair`: output channel and channel of its group.
  static double weight_gradient_at(const Geometry& g, const Context& c, Index pair, Index tap) {
    const double *x = data(c.input(0)), *dy = data(c.output_gradient(0));
    const Index k = pair / g.group_c;
    double sum = 0;
    for (Index image = 0; image < g.n; ++image) {
      const double* from = x + g.x_plane(image, k / g.group_k, pair % g.group_c) * g.in;
      const double* gradient = dy + (image * g.k + k) * g.out;
      g.window.for_each_run(tap, [&](Index o, Index i, Index count) {
        for (Index j = 0; j < count; ++j) sum += gradient[o + j] * from[i + j * g.stride];
      });
    }
    return sum;
  }

  static double bias_gradient(const Geometry& g, const Context& c, Index k) {
    const double* dy = data(c.output_gradient(0));
    double sum = 0;
    for (Index image = 0; image < g.n; ++image)
      for (Index i = 0; i < g.out; ++i) sum += dy[(image * g.k + k) * g.out + i];
    return sum;
  }

  Attributes attributes_;
  Index groups_;
};

}  // namespace
D5_REGISTER(operators, "Conv", Conv);
}  // namespace d5
