// SPDX-License-Identifier: Apache-2.0
// One step of an optimizer as an operator (ai.onnx.preview.training: Momentum, Adagrad, Adam), for several tensors at
// once: inputs R (rate), T (count), then all X, all G, and all of each state; outputs all X, and all of each state.
//   g = norm_coefficient x + g
//   Momentum  v = alpha v + (T > 0 ? beta : 1) g      x = x - R v, or nesterov x - R (g + alpha v)
//   Adagrad   h = h + g^2      x = x - R / (1 + T decay_factor) g / (sqrt(h) + epsilon)
//   Adam      v = alpha v + (1 - alpha) g      h = beta h + (1 - beta) g^2
//             r = T > 0 ? R sqrt(1 - beta^T) / (1 - alpha^T) : R
//             x = (1 - norm_coefficient_post) (x - r v / (sqrt(h) + epsilon))
// No gradient.
#include <algorithm>
#include <cmath>

#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

// One element: its value, gradient and state, changed in place.
struct Element {
  double x, g, first, second;
};

class Update : public Operator {
 public:
  Update(const Attributes& a, std::string_view place, size_t states)
      : place_(place), states_(states), norm_(a.real("norm_coefficient", 0)) {}

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    const size_t each = 2 + states_;
    if (in.size() < 2 + each || (in.size() - 2) % each != 0)
      throw Error("{} {} inputs given; a rate, a count and {} for each tensor are wanted", place_, in.size(), each);
    check_inputs(in, in.size(), in.size(), place_);
    if (in[0].elements() != 1 || in[1].elements() != 1 || in[1].dtype != DType::i64)
      throw Error("{} R is {} and T {}; a number, and one of i64, are wanted", place_, to_string(in[0]),
                  to_string(in[1]));
    const size_t count = tensors(in.size());
    std::vector<TensorSpec> out;
    for (size_t i = 0; i < each * count; ++i) {
      const TensorSpec &x = in[2 + i % count], &own = in[2 + i];
      check_type(own, {DType::f32, DType::f64}, place_);
      if (own.shape != x.shape)
        throw Error("{} inputs {} and {} are {} and {}; one shape is wanted", place_, 2 + i % count, 2 + i,
                    to_string(x.shape), to_string(own.shape));
      if (i / count != 1) out.push_back({own.dtype, own.shape});
    }
    return out;
  }

  void forward(Context& c) const override {
    const size_t count = tensors(c.inputs.size());
    const double rate = c.input(0).values<double>()[0];
    const auto steps = c.input(1).values<int64_t>()[0];
    for (size_t k = 0; k < count; ++k) {
      const auto part = [&](size_t block) { return c.input(2 + block * count + k).values<double>(); };
      const auto x = part(0), g = part(1), first = part(2), second = part(states_ + 1);
      for (size_t i = 0; i < x.size(); ++i) {
        Element e{x[i], norm_ * x[i] + g[i], first[i], second[i]};
        step(e, rate, steps);
        const double results[] = {e.x, e.first, e.second};
        for (size_t r = 0; r <= states_; ++r)
          if (c.output(r * count + k).present()) c.output(r * count + k).values<double>()[i] = results[r];
      }
    }
  }

  Cost cost(SpecSpan in, Pass) const override {
    double elements = 0;
    for (size_t i = 0; i < tensors(in.size()); ++i) elements += static_cast<double>(in[2 + i].elements());
    return {12 * elements, input_bytes(in) + input_bytes(infer(in))};
  }
  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 4, .units = 16}; }
  // Differences of x and of what is taken off: all that may cancel is of the size of the largest input.
  Tensor magnitude(const Context& c, Pass, size_t index) const override {
    Tensor scale = c.output(index).clone();
    double top = 1;
    for (const Tensor& t : c.inputs)
      if (t.dtype() == DType::f64)
        for (const double value : t.values<double>()) top = std::max(top, std::abs(value));
    for (double& value : scale.values<double>()) value = std::abs(value) + top * top;
    return scale;
  }

  static std::vector<Parameter> parameters() { return {{"shape", "shape of the tensor", "1024x1024"}}; }

 protected:
  virtual void step(Element&, double rate, int64_t steps) const = 0;

  static OperatorCase described(const Attributes& v, DType type, size_t states) {
    const Shape shape = parse_shape(v.text("shape", ""));
    const auto input = [&](double low) {
      return OperatorInput{.spec = {type, shape}, .low = low, .differentiable = false};
    };
    OperatorCase one{.inputs = {{.spec = {type, {}}, .low = 0.01, .high = 0.1, .differentiable = false},
                                {.spec = {DType::i64, {}}, .low = 1, .high = 9, .differentiable = false},
                                input(-1),
                                input(-1)}};
    for (size_t i = 0; i < states; ++i) one.inputs.push_back(input(i + 1 == states ? 0.1 : -1));
    one.outputs = 1 + states;
    return one;
  }

 private:
  size_t tensors(size_t inputs) const { return (inputs - 2) / (2 + states_); }

  std::string_view place_;
  size_t states_;
  double norm_;
};

class Momentum final : public Update {
 public:
  explicit Momentum(const Attributes& a)
      : Update(a, place, 1),
        alpha_(a.real("alpha", 0)),
        beta_(a.real("beta", 0)),
        nesterov_(a.text("mode", "") == "nesterov") {
    check_attributes(a, {"alpha", "beta", "mode", "norm_coefficient"}, place);
    if (!nesterov_ && a.text("mode", "") != "standard")
      throw UsageError("{} mode is '{}'; legal: standard, nesterov", place, a.text("mode", ""));
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    OperatorCase one = described(v, type, 1);
    one.attributes = {{"alpha", 0.9}, {"beta", 0.5}, {"mode", "standard"}, {"norm_coefficient", 0.01}};
    return one;
  }
  static std::vector<Attributes> cases() { return {{{"shape", "17"}}, {{"shape", "3x4"}}}; }

 private:
  static constexpr std::string_view place = "[momentum]";
  void step(Element& e, double rate, int64_t steps) const override {
    e.first = alpha_ * e.first + (steps > 0 ? beta_ : 1) * e.g;
    e.x -= rate * (nesterov_ ? e.g + alpha_ * e.first : e.first);
  }
  double alpha_, beta_;
  bool nesterov_;
};

class Adagrad final : public Update {
 public:
  explicit Adagrad(const Attributes& a)
      : Update(a, place, 1), epsilon_(a.real("epsilon", 1e-6)), decay_(a.real("decay_factor", 0)) {
    check_attributes(a, {"decay_factor", "epsilon", "norm_coefficient"}, place);
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    OperatorCase one = described(v, type, 1);
    one.attributes = {{"decay_factor", 0.1}, {"epsilon", 1e-3}, {"norm_coefficient", 0.01}};
    return one;
  }
  static std::vector<Attributes> cases() { return {{{"shape", "17"}}, {{"shape", "3x4"}}}; }

 private:
  static constexpr std::string_view place = "[adagrad]";
  void step(Element& e, double rate, int64_t steps) const override {
    e.first += e.g * e.g;
    e.x -= rate / (1 + static_cast<double>(steps) * decay_) * e.g / (std::sqrt(e.first) + epsilon_);
  }
  double epsilon_, decay_;
};

class Adam final : public Update {
 public:
  explicit Adam(const Attributes& a)
      : Update(a, place, 2),
        alpha_(a.real("alpha", 0.9)),
        beta_(a.real("beta", 0.999)),
        epsilon_(a.real("epsilon", 1e-6)),
        post_(a.real("norm_coefficient_post", 0)) {
    check_attributes(a, {"alpha", "beta", "epsilon", "norm_coefficient", "norm_coefficient_post"}, place);
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    OperatorCase one = described(v, type, 2);
    one.attributes = {{"epsilon", 1e-3}, {"norm_coefficient", 0.01}, {"norm_coefficient_post", 0.02}};
    return one;
  }
  static std::vector<Attributes> cases() { return {{{"shape", "17"}}, {{"shape", "3x4"}}}; }

 private:
  static constexpr std::string_view place = "[adam]";
  void step(Element& e, double rate, int64_t steps) const override {
    const auto t = static_cast<double>(steps);
    e.first = alpha_ * e.first + (1 - alpha_) * e.g;
    e.second = beta_ * e.second + (1 - beta_) * e.g * e.g;
    const double r = steps > 0 ? rate * std::sqrt(1 - std::pow(beta_, t)) / (1 - std::pow(alpha_, t)) : rate;
    e.x = (1 - post_) * (e.x - r * e.first / (std::sqrt(e.second) + epsilon_));
  }
  double alpha_, beta_, epsilon_, post_;
};

}  // namespace
D5_REGISTER(operators, "ai.onnx.preview.training:Momentum", Momentum);
D5_REGISTER(operators, "ai.onnx.preview.training:Adagrad", Adagrad);
D5_REGISTER(operators, "ai.onnx.preview.training:Adam", Adam);
}  // namespace d5
