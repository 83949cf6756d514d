// SPDX-License-Identifier: Apache-2.0
// The p-norm of a sliding window of 1 to 3 axes (ONNX LpPool), or of each channel of each image (GlobalLpPool).
//   y[o] = (sum over taps t of |x[s(o,t)]|^p)^(1/p)      dx[i] = sum over o of dy[o] sign(x_i) (|x_i| / y[o])^(p-1)
// Padding counts as zero; where y is zero the gradient is, too.
#include <algorithm>
#include <cmath>

#include "d5/operators/checks.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/operator.hpp"
#include "d5/operators/window.hpp"

namespace d5 {
namespace {

class NormPool : public Operator {
 public:
  NormPool(const Attributes& a, std::string_view place) : attributes_(a), place_(place), p_(a.integer("p", 2)) {
    if (p_ < 1) throw UsageError("{} p is {}; at least 1 is wanted", place, p_);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place_);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place_);
    const Shape& x = in[0].shape;
    if (x.rank() < 3 || x.rank() > 5)
      throw Error("{} X is {}, of rank {}; 3 to 5 axes are wanted", place_, to_string(x), x.rank());
    std::vector<Index> sizes{x[0], x[1]};
    for (const Index size : window(x).output_sizes()) sizes.push_back(size);
    return {output_spec(in[0].dtype, std::move(sizes), place_)};
  }

  void forward(Context& c) const override {
    const Window w = window(c.input(0).shape());
    const auto x = c.input(0).values<double>(), y = c.output(0).values<double>();
    for (Index o = 0; o < c.output(0).elements(); ++o) y[o] = norm(w, x, o);
  }

  void backward(Context& c) const override {
    const Window w = window(c.input(0).shape());
    const auto x = c.input(0).values<double>(), dy = c.output_gradient(0).values<double>();
    const auto dx = cleared(c.input_gradient(0));
    for (Index o = 0; o < c.output_gradient(0).elements(); ++o) {
      const double y = norm(w, x, o);
      const Index start = o / w.output_elements() * w.input_elements();
      if (y == 0) continue;
      w.for_each_tap(o % w.output_elements(), [&](Index i, Index) {
        const double value = x[start + i], size = std::pow(std::abs(value) / y, static_cast<double>(p_ - 1));
        dx[start + i] += value == 0 ? 0 : std::copysign(size, value) * dy[o];
      });
    }
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const double planes = static_cast<double>(in[0].shape[0]) * static_cast<double>(in[0].shape[1]);
    const TensorSpec y = infer(in)[0];
    const double work = 2 * planes * window(in[0].shape).pairs() + static_cast<double>(y.elements());
    if (pass == Pass::forward) return {work, in[0].bytes() + y.bytes()};
    return {2 * work, 2 * in[0].bytes() + 2 * y.bytes()};
  }

  // A sum of positive terms, a root of it; powers are p - 1 products.
  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    const Window w = window(in[0].shape);
    const double powers = 2 * static_cast<double>(p_) + 8;
    return {.terms = static_cast<double>(w.taps()) + (pass == Pass::forward ? 0 : w.most_readers()),
            .units = powers,
            .stored_outputs = pass == Pass::backward};
  }

  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    if (pass == Pass::forward) return c.output(0);
    Context absolute{.inputs = {c.input(0).clone()}, .output_gradients = {c.output_gradient(0).clone()}};
    for (const Tensor& t : {absolute.inputs[0], absolute.output_gradients[0]})
      for (double& value : t.values<double>()) value = std::abs(value);
    absolute.input_gradients.emplace_back(DType::f64, c.input(0).shape());
    backward(absolute);
    for (double& value : absolute.input_gradients[0].values<double>()) value *= static_cast<double>(p_);
    return absolute.input_gradients[0];
  }

 protected:
  virtual Window window(const Shape& x) const = 0;
  Attributes attributes_;
  std::string_view place_;

 private:
  double norm(const Window& w, std::span<const double> x, Index o) const {
    const Index start = o / w.output_elements() * w.input_elements();
    double sum = 0;
    w.for_each_tap(o % w.output_elements(),
                   [&](Index i, Index) { sum += std::pow(std::abs(x[start + i]), static_cast<double>(p_)); });
    return p_ == 1 ? sum : std::pow(sum, 1.0 / static_cast<double>(p_));
  }

  Index p_;
};

class LpPool final : public NormPool {
 public:
  explicit LpPool(const Attributes& a) : NormPool(a, "[lp_pool]") {
    check_attributes(a, {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "p", "pads", "strides"}, place_);
  }

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all{{"n", "images", 16},
                               {"c", "channels", 64},
                               {"size", "input sizes: 1 to 3 of them decide the dimension", "56x56"},
                               {"window", "window sizes", "2x2"},
                               {"p", "the norm", 2},
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
    one.attributes.set("p", v.integer("p", 2));
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"n", 1}, {"c", 1}, {"size", "1x1"}, {"window", "1x1"}},
            {{"n", 2}, {"c", 3}, {"size", "7x5"}, {"window", "2x2"}, {"stride", "2"}},
            {{"n", 1}, {"c", 2}, {"size", "9x8"}, {"window", "3x3"}, {"stride", "2"}, {"pad", "1"}, {"p", 3}},
            {{"n", 3}, {"c", 2}, {"size", "17"}, {"window", "4"}, {"stride", "3"}, {"p", 1}},
            {{"n", 1}, {"c", 2}, {"size", "5x4x6"}, {"window", "2x3x2"}, {"dilation", "1x1x2"}}};
  }

 private:
  Window window(const Shape& x) const override {
    const auto kernel = attributes_.integers("kernel_shape");
    if (kernel.size() + 2 != x.rank())
      throw Error("{} kernel_shape has {} sizes; {} are wanted for X of {}", place_, kernel.size(), x.rank() - 2,
                  to_string(x));
    return {attributes_, std::vector<Index>(x.begin() + 2, x.end()), kernel, place_};
  }
};

class GlobalLpPool final : public NormPool {
 public:
  explicit GlobalLpPool(const Attributes& a) : NormPool(a, "[global_lp_pool]") { check_attributes(a, {"p"}, place_); }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X: N x C x ...", "16x512x7x7"}, {"p", "the norm", 2}};
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}}, .attributes = {{"p", v.integer("p", 2)}}};
  }
  static std::vector<Attributes> cases() {
    return {{{"shape", "1x1x1x1"}}, {{"shape", "2x3x5x7"}, {"p", 3}}, {{"shape", "3x2x17"}, {"p", 1}}};
  }

 private:
  Window window(const Shape& x) const override {
    const std::vector<Index> sizes(x.begin() + 2, x.end());
    return {Attributes(), sizes, sizes, place_};
  }
};

}  // namespace
D5_REGISTER(operators, "LpPool", LpPool);
D5_REGISTER(operators, "GlobalLpPool", GlobalLpPool);
}  // namespace d5
