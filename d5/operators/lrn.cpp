// SPDX-License-Identifier: Apache-2.0
// Local response normalisation across channels (Krizhevsky et al., 2012; ONNX LRN). The window of channel c is
// c - floor((size - 1) / 2) .. c + ceil((size - 1) / 2), cut at the ends.
//   b_c = bias + alpha / size * sum of x_j^2 over the window of c      y_c = x_c b_c^-beta
//   dx_i = dy_i b_i^-beta - 2 alpha beta / size * x_i * sum of dy_c x_c b_c^(-beta-1) over the c whose window holds i
#include <algorithm>
#include <cmath>

#include "d5/operators/checks.hpp"
#include "d5/operators/lines.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[lrn]";

class Lrn final : public Operator {
 public:
  explicit Lrn(const Attributes& a)
      : alpha_(a.real("alpha", 1e-4)),
        beta_(a.real("beta", 0.75)),
        bias_(a.real("bias", 1)),
        size_(a.integer("size", 0)) {
    check_attributes(a, {"alpha", "beta", "bias", "size"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    if (in[0].shape.rank() < 2)
      throw Error("{} X is {}, of rank {}; images and channels are wanted", place, to_string(in[0].shape),
                  in[0].shape.rank());
    if (size_ < 1) throw Error("{} size is {}; a window of at least one channel is wanted", place, size_);
    return {{in[0].dtype, in[0].shape}};
  }

  void forward(Context& c) const override {
    for (auto [x, y] : lines<double>(1, c.input(0), c.output(0))) {
      const auto b = bases(x);
      for (size_t i = 0; i < b.size(); ++i) y[i] = x[i] * std::pow(b[i], -beta_);
    }
  }

  void backward(Context& c) const override {
    for (auto [x, dy, dx] : lines<double>(1, c.input(0), c.output_gradient(0), c.input_gradient(0))) {
      const auto b = bases(x);
      std::vector<double> share(b.size());
      for (size_t i = 0; i < b.size(); ++i) share[i] = dy[i] * x[i] * std::pow(b[i], -beta_ - 1);
      for (size_t i = 0; i < b.size(); ++i) {
        double sum = 0;
        for_holders(i, b.size(), [&](size_t holder) { sum += share[holder]; });
        dx[i] = dy[i] * std::pow(b[i], -beta_) - 2 * factor() * beta_ * x[i] * sum;
      }
    }
  }

  // A square and a sum for each element (windows overlap), a product, an addition, a power (as one), a product.
  Cost cost(SpecSpan in, Pass pass) const override {
    const double elements = static_cast<double>(in[0].elements()), bytes = in[0].bytes();
    return pass == Pass::forward ? Cost{6 * elements, 2 * bytes} : Cost{14 * elements, 3 * bytes};
  }

  // Units: squares, alpha / size, the bias, a power of 2 ulp, products.
  Rounding rounding(SpecSpan in, Pass, size_t) const override {
    return {.terms = static_cast<double>(std::min(size_, in[0].shape[1])), .units = 8};
  }

  // First-order errors in units of u. b is a sum and errs by B = |bias| + |alpha| / size sum x^2, so b^-beta has the
  // relative error r = 1 + beta B / b, and |beta log b| more where the power is exp(-beta log b).
  //   y: |y| r      dx: |dy| b^-beta r + 2 |alpha| beta / size |x| sum |dy x| b^(-beta-1) (r + B / b)
  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    Tensor result(DType::f64, c.input(0).shape());
    const Tensor& gradient = pass == Pass::forward ? c.input(0) : c.output_gradient(0);
    for (auto [x, dy, out] : lines<double>(1, c.input(0), gradient, result)) {
      const auto b = bases(x), sums = absolute_bases(x);
      std::vector<double> error(b.size()), share(b.size());
      for (size_t i = 0; i < b.size(); ++i) {
        error[i] = 1 + std::abs(beta_) * (sums[i] / b[i] + std::abs(std::log(b[i])));
        share[i] = std::abs(dy[i] * x[i]) * std::pow(b[i], -beta_ - 1) * (error[i] + sums[i] / b[i]);
      }
      for (size_t i = 0; i < b.size(); ++i) {
        const double power = std::pow(b[i], -beta_);
        out[i] = std::abs(pass == Pass::forward ? x[i] : dy[i]) * power * error[i];
        double sum = 0;
        if (pass == Pass::backward) for_holders(i, b.size(), [&](size_t holder) { sum += share[holder]; });
        out[i] += 2 * std::abs(factor() * beta_ * x[i]) * sum;
      }
    }
    return result;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X: N x C x ...", "16x96x27x27"},
            {"size", "channels in the window", 5},
            {"alpha", "factor of the squares", 1e-4},
            {"beta", "exponent", 0.75},
            {"bias", "added to the squares", 1.0}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}},
            .attributes = {{"size", v.integer("size", 5)},
                           {"alpha", v.real("alpha", 1e-4)},
                           {"beta", v.real("beta", 0.75)},
                           {"bias", v.real("bias", 1)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "1x1x1x1"}, {"size", 1}},
            {{"shape", "2x7x3x2"}, {"size", 3}},
            {{"shape", "2x7x3x2"}, {"size", 3}, {"alpha", 0.5}, {"beta", 0.5}, {"bias", 2.0}},
            {{"shape", "1x6x5"}, {"size", 4}, {"alpha", 1.0}},
            {{"shape", "2x3x4x5"}, {"size", 9}, {"alpha", 2.0}, {"beta", 1.0}},
            {{"shape", "2x32x14x14"}}};
  }

 private:
  double factor() const { return alpha_ / static_cast<double>(size_); }

  // f(j) for the channels j in the window of channel c.
  template <class F>
  void for_window(size_t c, size_t channels, F&& f) const {
    const Index centre = static_cast<Index>(c), last = static_cast<Index>(channels) - 1;
    for (Index j = std::max<Index>(0, centre - (size_ - 1) / 2); j <= std::min(last, centre + size_ / 2); ++j)
      f(static_cast<size_t>(j));
  }
  // f(c) for the channels c whose window holds channel i.
  template <class F>
  void for_holders(size_t i, size_t channels, F&& f) const {
    const Index held = static_cast<Index>(i), last = static_cast<Index>(channels) - 1;
    for (Index c = std::max<Index>(0, held - size_ / 2); c <= std::min(last, held + (size_ - 1) / 2); ++c)
      f(static_cast<size_t>(c));
  }

  std::vector<double> bases(const Line<double>& x) const { return bases(x, bias_, factor()); }
  std::vector<double> absolute_bases(const Line<double>& x) const {
    return bases(x, std::abs(bias_), std::abs(factor()));
  }
  std::vector<double> bases(const Line<double>& x, double bias, double factor) const {
    std::vector<double> b(x.size(), bias);
    for (size_t c = 0; c < b.size(); ++c) for_window(c, b.size(), [&](size_t j) { b[c] += factor * x[j] * x[j]; });
    return b;
  }

  double alpha_, beta_, bias_;
  Index size_;
};

}  // namespace
D5_REGISTER(operators, "LRN", Lrn);
}  // namespace d5
