// SPDX-License-Identifier: Apache-2.0
// Mean and maximum of each channel of each image (ONNX GlobalAveragePool, GlobalMaxPool). A plane is the n elements of
// one channel. Among equal values the first wins, so that the gradient is defined; NaN wins over numbers.
//   mean:    y = sum x / n      dx_i = dy / n
//   maximum: y = max x          dx_i = dy where i is the winner, else 0
#include <algorithm>
#include <numeric>

#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

class GlobalPool : public Operator {
 public:
  GlobalPool(const Attributes& a, std::string_view place) : place_(place) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place_);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place_);
    const Shape& x = in[0].shape;
    if (x.rank() < 3)
      throw Error("{} X is {}, of rank {}; images, channels and at least one more axis are wanted", place_,
                  to_string(x), x.rank());
    if (x.elements(2, x.rank()) == 0) throw Error("{} X is {}: nothing is there to pool over", place_, to_string(x));
    std::vector<Index> sizes(x.rank(), 1);
    sizes[0] = x[0];
    sizes[1] = x[1];
    return {output_spec(in[0].dtype, std::move(sizes), place_)};
  }

  void forward(Context& c) const override {
    const auto y = c.output(0).values<double>();
    for (size_t p = 0; p < y.size(); ++p) y[p] = pooled(plane(c.input(0), p));
  }

  void backward(Context& c) const override {
    const auto dy = c.output_gradient(0).values<double>();
    for (size_t p = 0; p < dy.size(); ++p) spread(plane(c.input(0), p), dy[p], plane(c.input_gradient(0), p));
  }

  bool forward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    for (size_t i = 0; i < at.size(); ++i) values[i] = pooled(plane(c.input(0), static_cast<size_t>(at[i])));
    return true;
  }

  static std::vector<Parameter> parameters() { return {{"shape", "shape of X: N x C x ...", "16x512x7x7"}}; }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "1x1x1x1"}}, {{"shape", "2x3x5x7"}},   {{"shape", "3x2x17"}},
            {{"shape", "1x4x1x9"}}, {{"shape", "2x2x3x4x5"}}, {{"shape", "4x128x7x7"}}};
  }

 protected:
  static double count(const Shape& x) { return static_cast<double>(x.elements(2, x.rank())); }

 private:
  virtual double pooled(std::span<const double> x) const = 0;
  virtual void spread(std::span<const double> x, double dy, std::span<double> dx) const = 0;

  static std::span<double> plane(const Tensor& t, size_t p) {
    const auto n = static_cast<size_t>(t.shape().elements(2, t.shape().rank()));
    return t.values<double>().subspan(p * n, n);
  }
  std::string_view place_;
};

class GlobalAveragePool final : public GlobalPool {
 public:
  explicit GlobalAveragePool(const Attributes& a) : GlobalPool(a, "[global_average_pool]") {}

  bool backward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    const double n = count(c.input(0).shape());
    for (size_t i = 0; i < at.size(); ++i)
      values[i] = c.output_gradient(0).values<double>()[at[i] / static_cast<Index>(n)] / n;
    return true;
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const TensorSpec y = infer(in)[0];
    const auto divisions = static_cast<double>(y.elements());
    const double additions = pass == Pass::forward ? static_cast<double>(in[0].elements()) : 0;
    return {additions + divisions, in[0].bytes() + y.bytes()};
  }

  // Units: the division, or the reciprocal and a product.
  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    return {.terms = pass == Pass::forward ? count(in[0].shape) : 0, .units = 2};
  }

 private:
  double pooled(std::span<const double> x) const override {
    return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  }
  void spread(std::span<const double>, double dy, std::span<double> dx) const override {
    std::ranges::fill(dx, dy / static_cast<double>(dx.size()));
  }
};

class GlobalMaxPool final : public GlobalPool {
 public:
  explicit GlobalMaxPool(const Attributes& a) : GlobalPool(a, "[global_max_pool]") {}

  bool backward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    const auto n = static_cast<Index>(count(c.input(0).shape()));
    const auto x = c.input(0).values<double>(), dy = c.output_gradient(0).values<double>();
    for (size_t i = 0; i < at.size(); ++i)
      values[i] = winner(x.subspan(at[i] / n * n, n)) == at[i] % n ? dy[at[i] / n] : 0;
    return true;
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const TensorSpec y = infer(in)[0];
    const auto comparisons = static_cast<double>(in[0].elements());
    if (pass == Pass::forward) return {comparisons, in[0].bytes() + y.bytes()};
    return {comparisons, 2 * in[0].bytes() + y.bytes()};  // the winner has to be found again
  }

  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

  // Nothing is rounded: the scale counts for nothing.
  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    return pass == Pass::forward ? c.output(0) : c.input_gradient(0);
  }

 private:
  static Index winner(std::span<const double> x) {
    size_t best = 0;
    for (size_t i = 1; i < x.size(); ++i)
      if (x[i] > x[best] || (x[i] != x[i] && x[best] == x[best])) best = i;
    return static_cast<Index>(best);
  }
  double pooled(std::span<const double> x) const override { return x[winner(x)]; }
  void spread(std::span<const double> x, double dy, std::span<double> dx) const override {
    std::ranges::fill(dx, 0.0);
    dx[winner(x)] = dy;
  }
};

}  // namespace
D5_REGISTER(operators, "GlobalAveragePool", GlobalAveragePool);
D5_REGISTER(operators, "GlobalMaxPool", GlobalMaxPool);
}  // namespace d5
