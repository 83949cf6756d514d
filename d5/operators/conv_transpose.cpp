// SPDX-License-Identifier: Apache-2.0
// Transposed convolution over 1 to 3 axes, with groups (ONNX ConvTranspose): the gradient of a convolution with respect
// to its input. Element o of X adds, with tap t, to element s(o, t) = o stride - pad + t dilation of Y.
//   Y[n,k,i]  = B[k] + sum over c, o, t with s(o,t) = i of W[c,k,t] X[n,c,o]      c: the channels of k's group
//   dX[n,c,o] = sum over k, t of W[c,k,t] dY[n,k,s(o,t)]
//   dW[c,k,t] = sum over n, o of X[n,c,o] dY[n,k,s(o,t)]                          dB[k] = sum over n, i of dY[n,k,i]
#include "d5/core/parallel.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"
#include "d5/operators/window.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[conv_transpose]";

std::vector<Index> spatial(const Shape& s) { return {s.begin() + 2, s.end()}; }

class ConvTranspose final : public Operator {
 public:
  explicit ConvTranspose(const Attributes& a) : attributes_(a), groups_(a.integer("group", 1)) {
    check_attributes(
        a, {"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape", "pads", "strides"},
        place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 3, place);
    check_same_type(in, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const Shape &x = in[0].shape, &w = in[1].shape;
    if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank())
      throw Error("{} X is {} and W is {}: both are wanted with the same 3 to 5 axes", place, to_string(x),
                  to_string(w));
    if (w[0] != x[1])
      throw Error("{} X is {} and W is {}: X has {} channels and W takes {}", place, to_string(x), to_string(w), x[1],
                  w[0]);
    if (groups_ < 1 || x[1] % groups_ != 0)
      throw Error("{} group is {}, which does not divide the {} channels of X ({})", place, groups_, x[1],
                  to_string(x));
    if (const auto kernel = attributes_.integers("kernel_shape"); !kernel.empty() && kernel != spatial(w))
      throw Error("{} kernel_shape is {} but W is {}", place, to_string(Shape(kernel)), to_string(w));
    const Index k = output_spec(in[0].dtype, {w[1], groups_}, place).elements();
    if (has(in, 2) && in[2].shape != Shape{k})
      throw Error("{} B is {}; {} values are wanted, one for each output channel", place, to_string(in[2].shape), k);
    std::vector<Index> sizes{x[0], k};
    for (const Index size : window(x, w).input_sizes()) sizes.push_back(size);
    return {output_spec(in[0].dtype, std::move(sizes), place)};
  }

  void forward(Context& c) const override {
    const Geometry g = geometry(c);
    const double *x = data(c.input(0)), *w = data(c.input(1)), *bias = data(c.input(2));
    double* y = data(c.output(0));
    parallel_for(g.n * g.k, grain(g), [&](Index first, Index last) {
      for (Index plane = first; plane < last; ++plane) {
        const Index k = plane % g.k;
        double* sums = y + plane * g.y_size;
        std::fill_n(sums, g.y_size, bias ? bias[k] : 0.0);
        for (Index c = 0; c < g.group_c; ++c) {
          const double* from = x + g.x_plane(plane / g.k, k / g.group_k, c) * g.x_size;
          const double* weights = w + g.filter(k / g.group_k * g.group_c + c, k % g.group_k);
          for (Index tap = 0; tap < g.taps; ++tap)
            g.window.for_each_run(tap, [&, weight = weights[tap]](Index o, Index i, Index count) {
              for (Index j = 0; j < count; ++j) sums[i + j * g.stride] += weight * from[o + j];
            });
        }
      }
    });
  }

  void backward(Context& c) const override {
    const Geometry g = geometry(c);
    if (c.input_gradient(0).present()) input_gradient(g, c);
    if (c.input_gradient(1).present()) {
      double* dw = data(c.input_gradient(1));
      const Index work = std::max<Index>(1, g.taps * g.n * g.x_size);
      parallel_for(g.c * g.group_k, std::max<Index>(1, (1 << 20) / work), [&](Index first, Index last) {
        for (Index pair = first; pair < last; ++pair)
          for (Index tap = 0; tap < g.taps; ++tap) dw[pair * g.taps + tap] = weight_gradient_at(g, c, pair, tap);
      });
    }
    if (c.input_gradient(2).present())
      for (Index k = 0; k < g.k; ++k) data(c.input_gradient(2))[k] = bias_gradient(g, c, k);
  }

  bool forward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    const Geometry g = geometry(c);
    const double *x = data(c.input(0)), *w = data(c.input(1)), *bias = data(c.input(2));
    for (size_t i = 0; i < at.size(); ++i) {
      const Index plane = at[i] / g.y_size, k = plane % g.k;
      double sum = bias ? bias[k] : 0.0;
      for (Index c = 0; c < g.group_c; ++c) {
        const double* from = x + g.x_plane(plane / g.k, k / g.group_k, c) * g.x_size;
        const double* weights = w + g.filter(k / g.group_k * g.group_c + c, k % g.group_k);
        g.window.for_each_reader(at[i] % g.y_size, [&](Index o, Index tap) { sum += weights[tap] * from[o]; });
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
    const double products = 2.0 * g.n * g.c * g.group_k * g.window.pairs();
    const double additions = has(in, 2) ? static_cast<double>(y.elements()) : 0;
    if (pass == Pass::forward) return {products + additions, input_bytes(in) + y.bytes()};
    const double bias_bytes = has(in, 2) ? in[2].bytes() : 0;  // its gradient is written, itself is not read
    return {2 * products + additions, 2 * (in[0].bytes() + in[1].bytes()) + y.bytes() + bias_bytes};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    const Geometry g = geometry(in[0].shape, in[1].shape);
    if (pass == Pass::forward)
      return {.terms = g.group_c * g.window.most_readers() + (has(in, 2) ? 1 : 0), .exact = true};
    if (index == 0) return {.terms = 1.0 * g.group_k * g.taps, .exact = true};
    return {.terms = 1.0 * g.n * (index == 1 ? g.x_size : g.y_size), .exact = true};
  }

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all{{"n", "images", 16},
                               {"c", "input channels", 64},
                               {"size", "input sizes: 1 to 3 of them decide the dimension", "28x28"},
                               {"k", "output channels", 64},
                               {"filter", "filter sizes", "3x3"},
                               {"groups", "groups of channels", 1},
                               {"bias", "add a bias to each output channel", true},
                               {"output_padding", "elements more at the end of each output axis", "0"},
                               {"output_shape", "sizes of the output, which decide the pads; empty: by pads", ""}};
    for (Parameter& parameter : window_parameters()) all.push_back(std::move(parameter));
    return all;
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Index n = v.integer("n", 0), c = v.integer("c", 0), k = v.integer("k", 0), groups = v.integer("groups", 1);
    const auto size = window_sizes(v, "size"), kernel = sizes(v, "filter", size.size());
    if (groups < 1 || k % groups != 0)
      throw UsageError("{} groups is {}; it must divide the {} output channels", place, groups, k);
    std::vector<Index> x{n, c}, w{c, k / groups};
    x.insert(x.end(), size.begin(), size.end());
    w.insert(w.end(), kernel.begin(), kernel.end());
    OperatorCase one{.attributes = window_attributes(v, size.size())};
    one.attributes.set("group", groups);
    one.attributes.set("kernel_shape", kernel);
    one.attributes.set("output_padding", sizes(v, "output_padding", size.size()));
    if (!v.text("output_shape", "").empty()) one.attributes.set("output_shape", sizes(v, "output_shape", size.size()));
    one.inputs.push_back({.spec = {type, Shape(std::move(x))}});
    one.inputs.push_back({.spec = {type, Shape(std::move(w))}, .parameter = true});
    if (v.flag("bias", true)) one.inputs.push_back({.spec = {type, Shape{k}}, .parameter = true});
    return one;
  }

  static std::vector<Attributes> cases() {
    return {
        {{"n", 1}, {"c", 1}, {"size", "1x1"}, {"k", 1}, {"filter", "1x1"}},
        {{"n", 2}, {"c", 3}, {"size", "5x4"}, {"k", 4}, {"filter", "3x3"}, {"pad", "1"}},
        {{"n", 1}, {"c", 5}, {"size", "4x5"}, {"k", 3}, {"filter", "2x2"}, {"stride", "2"}, {"bias", false}},
        {{"n", 2}, {"c", 2}, {"size", "3x4"}, {"k", 3}, {"filter", "2x3"}, {"stride", "3x4"}},
        {{"n", 1}, {"c", 3}, {"size", "5x4"}, {"k", 2}, {"filter", "3x2"}, {"pads", "0x1x2x0"}},
        {{"n", 2}, {"c", 6}, {"size", "5x5"}, {"k", 6}, {"filter", "3x3"}, {"pad", "1"}, {"groups", 6}},
        {{"n", 1}, {"c", 4}, {"size", "4x6"}, {"k", 6}, {"filter", "3x3"}, {"groups", 2}, {"stride", "2x1"}},
        {{"n", 1}, {"c", 2}, {"size", "4x5"}, {"k", 3}, {"filter", "3x2"}, {"dilation", "2x3"}, {"pad", "2x1"}},
        {{"n", 1},
         {"c", 2},
         {"size", "4x3"},
         {"k", 2},
         {"filter", "3x3"},
         {"stride", "2"},
         {"pad", "1"},
         {"output_padding", "1"}},
        {{"n", 1}, {"c", 2}, {"size", "3x3"}, {"k", 2}, {"filter", "3x3"}, {"stride", "3x2"}, {"output_shape", "10x8"}},
        {{"n", 2}, {"c", 3}, {"size", "7"}, {"k", 4}, {"filter", "5"}, {"stride", "2"}, {"pad", "2"}},
        {{"n", 1}, {"c", 2}, {"size", "3x4x2"}, {"k", 3}, {"filter", "3x2x3"}, {"stride", "1x2x1"}, {"pad", "1x0x1"}},
        {{"n", 1}, {"c", 2}, {"size", "4x3"}, {"k", 2}, {"filter", "3x4"}, {"stride", "2"}, {"auto_pad", "SAME_UPPER"}},
        {{"n", 1}, {"c", 64}, {"size", "7x7"}, {"k", 32}, {"filter", "4x4"}, {"stride", "2"}, {"pad", "1"}}};
  }

 private:
  struct Geometry {
    Window window;
    Index n, c, k, group_c, group_k, x_size, y_size, taps, stride;
    Index x_plane(Index image, Index group, Index channel) const { return image * c + group * group_c + channel; }
    Index y_plane(Index image, Index group, Index channel) const { return image * k + group * group_k + channel; }
    Index filter(Index channel, Index output) const { return (channel * group_k + output) * taps; }
  };

  Window window(const Shape& x, const Shape& w) const {
    return Window::transposed(attributes_, spatial(x), spatial(w), place);
  }
  Geometry geometry(const Shape& x, const Shape& w) const {
    const Window all = window(x, w);
    return {all,
            x[0],
            x[1],
            w[1] * groups_,
            x[1] / groups_,
            w[1],
            all.output_elements(),
            all.input_elements(),
            all.taps(),
            all.stride[2]};
  }
  Geometry geometry(const Context& c) const { return geometry(c.input(0).shape(), c.input(1).shape()); }

  static double* data(const Tensor& t) { return t.present() ? t.values<double>().data() : nullptr; }
  // Planes in one range: about a million multiplications.
  static Index grain(const Geometry& g) {
    return std::max<Index>(1, (1 << 20) / std::max<Index>(1, std::max(g.group_c, g.group_k) * g.taps * g.x_size));
  }

  static void input_gradient(const Geometry& g, const Context& c) {
    const double *w = data(c.input(1)), *dy = data(c.output_gradient(0));
    double* dx = data(c.input_gradient(0));
    parallel_for(g.n * g.c, grain(g), [&](Index first, Index last) {
      for (Index plane = first; plane < last; ++plane) {
        const Index channel = plane % g.c;
        double* sums = dx + plane * g.x_size;
        std::fill_n(sums, g.x_size, 0.0);
        for (Index k = 0; k < g.group_k; ++k) {
          const double* from = dy + g.y_plane(plane / g.c, channel / g.group_c, k) * g.y_size;
          const double* weights = w + g.filter(channel, k);
          for (Index tap = 0; tap < g.taps; ++tap)
            g.window.for_each_run(tap, [&, weight = weights[tap]](Index o, Index i, Index count) {
              for (Index j = 0; j < count; ++j) sums[o + j] += weight * from[i + j * g.stride];
            });
        }
      }
    });
  }

  static double input_gradient_at(const Geometry& g, const Context& c, Index at) {
    const double *w = data(c.input(1)), *dy = data(c.output_gradient(0));
    const Index plane = at / g.x_size, channel = plane % g.c;
    double sum = 0;
    for (Index k = 0; k < g.group_k; ++k) {
      const double* from = dy + g.y_plane(plane / g.c, channel / g.group_c, k) * g.y_size;
      const double* weights = w + g.filter(channel, k);
      g.window.for_each_tap(at % g.x_size, [&](Index i, Index tap) { sum += weights[tap] * from[i]; });
    }
    return sum;
  }

  // `pair`: input channel and output channel of its group.
  static double weight_gradient_at(const Geometry& g, const Context& c, Index pair, Index tap) {
    const double *x = data(c.input(0)), *dy = data(c.output_gradient(0));
    const Index channel = pair / g.group_k;
    double sum = 0;
    for (Index image = 0; image < g.n; ++image) {
      const double* from = x + (image * g.c + channel) * g.x_size;
      const double* gradient = dy + g.y_plane(image, channel / g.group_c, pair % g.group_k) * g.y_size;
      g.window.for_each_run(tap, [&](Index o, Index i, Index count) {
        for (Index j = 0; j < count; ++j) sum += from[o + j] * gradient[i + j * g.stride];
      });
    }
    return sum;
  }

  static double bias_gradient(const Geometry& g, const Context& c, Index k) {
    const double* dy = data(c.output_gradient(0));
    double sum = 0;
    for (Index image = 0; image < g.n; ++image)
      for (Index i = 0; i < g.y_size; ++i) sum += dy[(image * g.k + k) * g.y_size + i];
    return sum;
  }

  Attributes attributes_;
  Index groups_;
};

}  // namespace
D5_REGISTER(operators, "ConvTranspose", ConvTranspose);
}  // namespace d5
