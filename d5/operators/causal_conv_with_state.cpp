// SPDX-License-Identifier: Apache-2.0
// A convolution of each channel alone over the present and the last k - 1 positions (ONNX CausalConvWithState); what
// stands before the first position is the past state, or zero.
//   z = [past, x]      y[c, t] = f(bias_c + sum over i < k of w[c, i] z[c, t + i])      present = the last k - 1 of z
//   f(s) = s, or s sigmoid(s) for silu and swish
// No gradient.
#include <algorithm>
#include <cmath>

#include "d5/operators/checks.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[causal_conv_with_state]";

class CausalConvWithState final : public Operator {
 public:
  explicit CausalConvWithState(const Attributes& a) {
    check_attributes(a, {"activation"}, place);
    const std::string f = a.text("activation", "none");
    silu_ = f == "silu" || f == "swish";
    if (!silu_ && f != "none") throw UsageError("{} activation is '{}'; legal: none, silu, swish", place, f);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 4, place);
    check_same_type(in, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    check_rank(in[0], "input", 3, place);
    check_rank(in[1], "weight", 3, place);
    const Shape &x = in[0].shape, &w = in[1].shape;
    const auto check = [&](size_t i, const char* name, const Shape& wanted) {
      if (has(in, i) && in[i].shape != wanted)
        throw Error("{} {} is {}; {} is wanted for input {}", place, name, to_string(in[i].shape), to_string(wanted),
                    to_string(x));
    };
    if (w[2] < 1) throw Error("{} weight is {}; at least one tap is wanted", place, to_string(w));
    check(1, "weight", {x[1], 1, w[2]});
    check(2, "bias", {x[1]});
    check(3, "past_state", {x[0], x[1], w[2] - 1});
    return {{in[0].dtype, x}, {in[0].dtype, {x[0], x[1], w[2] - 1}}};
  }

  void forward(Context& c) const override {
    const Shape& x = c.input(0).shape();
    const Index taps = c.input(1).shape()[2], length = x[2], before = taps - 1;
    std::vector<double> z(static_cast<size_t>(before + length), 0.0);
    for (Index row = 0; row < x[0] * x[1]; ++row) {
      const Index channel = row % x[1];
      if (c.input(3).present()) std::copy_n(&c.input(3).values<double>()[0] + row * before, before, z.begin());
      std::copy_n(c.input(0).values<double>().data() + row * length, length, z.begin() + before);
      const double* w = &c.input(1).values<double>()[channel * taps];
      for (Index t = 0; c.output(0).present() && t < length; ++t) {
        double sum = c.input(2).present() ? c.input(2).values<double>()[channel] : 0;
        for (Index i = 0; i < taps; ++i) sum += w[i] * z[t + i];
        c.output(0).values<double>()[row * length + t] = silu_ ? sum / (1 + std::exp(-sum)) : sum;
      }
      if (c.output(1).present() && before > 0)
        std::copy_n(z.end() - before, before, &c.output(1).values<double>()[row * before]);
    }
  }

  Cost cost(SpecSpan in, Pass) const override {
    const double taps = static_cast<double>(in[1].shape[2]), elements = static_cast<double>(in[0].elements());
    return {elements * (2 * taps + (silu_ ? 4 : 0)), input_bytes(in) + input_bytes(infer(in))};
  }

  Rounding rounding(SpecSpan in, Pass, size_t index) const override {
    if (index == 1) return {.terms = 0, .units = 0, .exact = true};
    return {.terms = static_cast<double>(in[1].shape[2]) + 1, .units = silu_ ? 8.0 : 1.0, .exact = !silu_};
  }

  static std::vector<Parameter> parameters() {
    return {{"batch", "samples", 8},
            {"channels", "channels", 256},
            {"length", "positions", 512},
            {"taps", "positions that one result sees", 4},
            {"past", "begin with a state", true},
            {"activation", "none or silu", "none"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Index n = v.integer("batch", 0), channels = v.integer("channels", 0), taps = v.integer("taps", 1);
    const auto input = [&](Shape shape) {
      return OperatorInput{.spec = {type, std::move(shape)}, .differentiable = false};
    };
    return {.inputs = {input({n, channels, v.integer("length", 0)}), input({channels, 1, taps}), input({channels}),
                       v.flag("past", true) ? input({n, channels, taps - 1}) : absent_input()},
            .attributes = {{"activation", v.text("activation", "none")}},
            .outputs = 2};
  }

  static std::vector<Attributes> cases() {
    return {{{"batch", 2}, {"channels", 3}, {"length", 5}, {"taps", 3}},
            {{"batch", 1}, {"channels", 2}, {"length", 1}, {"taps", 4}, {"activation", "silu"}},
            {{"batch", 1}, {"channels", 4}, {"length", 9}, {"taps", 2}, {"past", false}}};
  }

 private:
  bool silu_ = false;
};

}  // namespace
D5_REGISTER(operators, "CausalConvWithState", CausalConvWithState);
}  // namespace d5
