// SPDX-License-Identifier: Apache-2.0
// Convolution whose taps are moved (Dai et al., 2017; ONNX DeformConv), over 2 axes: tap t of output o reads X at
// p = o stride - pad + t dilation + offset[o, t], between its four neighbours; outside X is zero.
//   Y[n, k, o] = B[k] + sum over c, t of W[k, c, t] mask[o, t] X[n, c, p]
// Channels share offsets and masks in offset_group groups. No gradient.
#include <algorithm>
#include <cmath>

#include "d5/operators/checks.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/operator.hpp"
#include "d5/operators/window.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[deform_conv]";

std::vector<Index> spatial(const Shape& s) { return {s.begin() + 2, s.end()}; }

class DeformConv final : public Operator {
 public:
  explicit DeformConv(const Attributes& a)
      : attributes_(a), groups_(a.integer("group", 1)), offset_groups_(a.integer("offset_group", 1)) {
    check_attributes(a, {"dilations", "group", "kernel_shape", "offset_group", "pads", "strides"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 3, 5, place);
    check_same_type(in, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const Shape &x = in[0].shape, &w = in[1].shape;
    if (x.rank() != 4 || w.rank() != 4)
      throw Error("{} X is {} and W {}; two spatial axes are supported", place, to_string(x), to_string(w));
    if (groups_ < 1 || offset_groups_ < 1 || x[1] != w[1] * groups_ || w[0] % groups_ != 0 ||
        x[1] % offset_groups_ != 0)
      throw Error("{} X is {} and W {}: group {} and offset_group {} do not divide their channels", place, to_string(x),
                  to_string(w), groups_, offset_groups_);
    const Window window(attributes_, spatial(x), spatial(w), place);
    const Index taps = window.taps(), h = window.output[1], width = window.output[2];
    const auto check = [&](size_t i, const char* name, const Shape& wanted) {
      if (has(in, i) && in[i].shape != wanted)
        throw Error("{} {} is {}; {} is wanted", place, name, to_string(in[i].shape), to_string(wanted));
    };
    check(2, "offset", {x[0], offset_groups_ * taps * 2, h, width});
    check(3, "B", {w[0]});
    check(4, "mask", {x[0], offset_groups_ * taps, h, width});
    return {output_spec(in[0].dtype, {x[0], w[0], h, width}, place)};
  }

  void forward(Context& c) const override {
    const Shape &x = c.input(0).shape(), &w = c.input(1).shape();
    const Window window(attributes_, spatial(x), spatial(w), place);
    const Index outputs = window.output_elements(), taps = window.taps(), columns = window.output[2];
    const Index own = w[1], shared = x[1] / offset_groups_, per_group = w[0] / groups_;
    const auto data = [&](size_t i) { return c.input(i).present() ? c.input(i).values<double>().data() : nullptr; };
    const double *values = data(0), *weights = data(1), *offset = data(2), *bias = data(3), *mask = data(4);
    const auto y = c.output(0).values<double>();
    std::vector<double> sampled(static_cast<size_t>(x[1] * taps));
    for (Index n = 0; n < x[0]; ++n)
      for (Index o = 0; o < outputs; ++o) {
        for (Index channel = 0; channel < x[1]; ++channel)
          for (Index tap = 0; tap < taps; ++tap) {
            const Index at = (n * offset_groups_ + channel / shared) * taps + tap;  // row of offsets of this tap
            const double row = static_cast<double>(window.source(1, o / columns, tap / window.kernel[2])) +
                               offset[2 * at * outputs + o];
            const double column = static_cast<double>(window.source(2, o % columns, tap % window.kernel[2])) +
                                  offset[(2 * at + 1) * outputs + o];
            sampled[channel * taps + tap] =
                (mask ? mask[at * outputs + o] : 1) *
                between(values + (n * x[1] + channel) * x[2] * x[3], x[2], x[3], row, column);
          }
        for (Index k = 0; k < w[0]; ++k) {
          double sum = bias ? bias[k] : 0;
          for (Index i = 0; i < own * taps; ++i)
            sum += weights[k * own * taps + i] * sampled[k / per_group * own * taps + i];
          y[(n * w[0] + k) * outputs + o] = sum;
        }
      }
  }

  Cost cost(SpecSpan in, Pass) const override {
    const TensorSpec y = infer(in)[0];
    const double products = static_cast<double>(in[1].shape.elements(1, 4));
    return {2 * products * static_cast<double>(y.elements()), input_bytes(in) + y.bytes()};
  }
  Rounding rounding(SpecSpan in, Pass, size_t) const override {
    return {.terms = static_cast<double>(in[1].shape.elements(1, 4)) + 1, .units = 32};
  }
  // The place is rounded, so a weight errs by the size of a coordinate: all that a filter could meet.
  Tensor magnitude(const Context& c, Pass, size_t) const override {
    double top = 0, most = 0;
    for (const double value : c.input(0).values<double>()) top = std::max(top, std::abs(value));
    const auto w = c.input(1).values<double>();
    const Index each = c.input(1).shape().elements(1, 4);
    for (Index k = 0; k < c.input(1).shape()[0]; ++k) {
      double sum = 0;
      for (Index i = 0; i < each; ++i) sum += std::abs(w[k * each + i]);
      most = std::max(most, sum);
    }
    const double longest = static_cast<double>(std::max(c.input(0).shape()[2], c.input(0).shape()[3]));
    Tensor scale(DType::f64, c.output(0).shape());
    std::ranges::fill(scale.values<double>(), top * most * longest + 1);
    return scale;
  }

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all{{"n", "images", 4},
                               {"c", "input channels", 64},
                               {"size", "input sizes", "28x28"},
                               {"k", "output channels", 64},
                               {"filter", "filter sizes", "3x3"},
                               {"groups", "groups of channels", 1},
                               {"offset_groups", "groups that share offsets", 1},
                               {"mask", "weigh each tap of each output", true}};
    for (Parameter& parameter : window_parameters())
      if (parameter.name != "auto_pad") all.push_back(std::move(parameter));
    return all;
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const auto size = window_sizes(v, "size"), kernel = sizes(v, "filter", size.size());
    const Index n = v.integer("n", 0), channels = v.integer("c", 0), k = v.integer("k", 0);
    const Index groups = std::max<Index>(1, v.integer("groups", 1)), shared = v.integer("offset_groups", 1);
    if (size.size() != 2) throw UsageError("{} size has {} axes; two are wanted", place, size.size());
    Attributes a = window_attributes(v, 2);
    a.erase("auto_pad");
    const Window w(a, size, kernel, place);
    a.set("group", groups);
    a.set("offset_group", shared);
    const auto input = [&](Shape shape) {
      return OperatorInput{.spec = {type, std::move(shape)}, .differentiable = false};
    };
    OperatorCase one{
        .inputs = {input({n, channels, size[0], size[1]}), input({k, channels / groups, kernel[0], kernel[1]}),
                   input({n, shared * w.taps() * 2, w.output[1], w.output[2]}), input({k})},
        .attributes = a};
    if (v.flag("mask", true)) one.inputs.push_back(input({n, shared * w.taps(), w.output[1], w.output[2]}));
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"n", 1}, {"c", 1}, {"size", "3x3"}, {"k", 1}, {"filter", "2x2"}, {"mask", false}},
            {{"n", 2},
             {"c", 4},
             {"size", "6x5"},
             {"k", 2},
             {"filter", "3x2"},
             {"groups", 2},
             {"offset_groups", 2},
             {"pad", "1"}}};
  }

 private:
  static double between(const double* plane, Index h, Index w, double row, double column) {
    const double top = std::floor(row), left = std::floor(column), a = row - top, b = column - left;
    const auto at = [&](double i, double j) {
      const bool inside = i >= 0 && i < static_cast<double>(h) && j >= 0 && j < static_cast<double>(w);
      return inside ? plane[static_cast<Index>(i) * w + static_cast<Index>(j)] : 0.0;
    };
    return (1 - a) * ((1 - b) * at(top, left) + b * at(top, left + 1)) +
           a * ((1 - b) * at(top + 1, left) + b * at(top + 1, left + 1));
  }

  Attributes attributes_;
  Index groups_, offset_groups_;
};

}  // namespace
D5_REGISTER(operators, "DeformConv", DeformConv);
}  // namespace d5
