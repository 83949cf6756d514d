// SPDX-License-Identifier: Apache-2.0
// The bounds of elementwise operators are honest: the formulas that libraries use, in f32 and with every step of a
// gradient stored in bf16, stay within them. And they have power: a result that is off by a ten-thousandth does not.
#include <map>

#include "d5/bench/problem.hpp"
#include "run_operator.hpp"

namespace d5 {
namespace {

using F = float;
using Forward = std::function<F(F)>;
using Slope = std::function<F(F x, F y)>;  // y as it was stored

F sigmoid(F x) { return 1 / (1 + std::exp(-x)); }
F softplus(F x) { return std::log1p(std::exp(x)); }
F gelu_g(F x) { return 0.7978845608f * (x + 0.044715f * x * x * x); }
F naive_tanh(F x) { return 1 - 2 / (std::exp(2 * x) + 1); }
F ramp(F x, F alpha, F beta) { return std::max(0.0f, std::min(1.0f, alpha * x + beta)); }

struct Kernel {
  std::string op;
  Attributes values;
  Forward forward;
  Slope slope;
};

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> all{
      {"Exp", {}, [](F x) { return std::exp2(x * 1.44269504f); }, [](F, F y) { return y; }},
      {"Log", {}, [](F x) { return std::log2(x) * 0.693147181f; }, [](F x, F) { return 1 / x; }},
      {"Sqrt", {}, [](F x) { return x * (1 / std::sqrt(x)); }, [](F, F y) { return 1 / (2 * y); }},
      {"Reciprocal", {}, [](F x) { return 1 / x; }, [](F, F y) { return -y * y; }},
      {"Erf", {}, [](F x) { return std::erf(x); }, [](F x, F) { return 1.128379167f * std::exp(-(x * x)); }},
      {"Sin", {}, [](F x) { return std::sin(x); }, [](F x, F) { return std::cos(x); }},
      {"Cos", {}, [](F x) { return std::cos(x); }, [](F x, F) { return -std::sin(x); }},
      {"Tan", {}, [](F x) { return std::sin(x) / std::cos(x); }, [](F, F y) { return 1 + y * y; }},
      {"Asin", {}, [](F x) { return std::asin(x); }, [](F x, F) { return 1 / std::sqrt(1 - x * x); }},
      {"Acos", {}, [](F x) { return 1.57079633f - std::asin(x); }, [](F x, F) { return -1 / std::sqrt(1 - x * x); }},
      {"Atan", {}, [](F x) { return std::atan(x); }, [](F x, F) { return 1 / (1 + x * x); }},
      {"Sinh", {}, [](F x) { return (std::exp(x) - std::exp(-x)) / 2; }, [](F x, F) { return std::cosh(x); }},
      {"Cosh",
       {},
       [](F x) { return (std::exp(x) + std::exp(-x)) / 2; },
       [](F x, F) { return (std::exp(x) - std::exp(-x)) / 2; }},
      {"Asinh",
       {},
       [](F x) { return std::copysign(std::log(std::abs(x) + std::sqrt(x * x + 1)), x); },
       [](F x, F) { return 1 / std::sqrt(x * x + 1); }},
      {"Acosh",
       {},
       [](F x) { return std::log(x + std::sqrt(x * x - 1)); },
       [](F x, F) { return 1 / std::sqrt(x * x - 1); }},
      {"Atanh", {}, [](F x) { return 0.5f * std::log((1 + x) / (1 - x)); }, [](F x, F) { return 1 / (1 - x * x); }},
      {"LeakyRelu", {}, [](F x) { return x < 0 ? 0.01f * x : x; }, [](F x, F) { return x > 0 ? 1 : 0.01f; }},
      {"Elu", {}, [](F x) { return x > 0 ? x : std::exp(x) - 1; }, [](F x, F y) { return x > 0 ? 1 : y + 1; }},
      {"Celu",
       {{"alpha", 2.0}},
       [](F x) { return x > 0 ? x : 2 * (std::exp(x / 2) - 1); },
       [](F x, F y) { return x > 0 ? 1 : (y + 2) / 2; }},
      {"Selu",
       {},
       [](F x) { return 1.05070102f * (x > 0 ? x : 1.67326319f * (std::exp(x) - 1)); },
       [](F x, F y) { return x > 0 ? 1.05070102f : y + 1.05070102f * 1.67326319f; }},
      {"Sigmoid", {}, sigmoid, [](F, F y) { return y * (1 - y); }},
      {"Tanh", {}, naive_tanh, [](F, F y) { return 1 - y * y; }},
      {"HardSigmoid",
       {},
       [](F x) { return ramp(x, 0.2f, 0.5f); },
       [](F x, F) { return 0.2f * x + 0.5f > 0 && 0.2f * x + 0.5f < 1 ? 0.2f : 0; }},
      {"HardSwish",
       {},
       [](F x) { return x * ramp(x, 1.0f / 6, 0.5f); },
       [](F x, F) { return x < -3   ? 0
                           : x <= 3 ? x / 3 + 0.5f
                                    : 1; }},
      {"Gelu",
       {},
       [](F x) { return 0.5f * x * (1 + std::erf(x * 0.707106781f)); },
       [](F x, F) { return 0.5f * (1 + std::erf(x * 0.707106781f)) + x * (0.398942280f * std::exp(-0.5f * x * x)); }},
      {"Gelu",
       {{"approximate", "tanh"}},
       [](F x) { return 0.5f * x * (1 + naive_tanh(gelu_g(x))); },
       [](F x, F) {
         const F t = naive_tanh(gelu_g(x));
         return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 0.134145f * x * x);
       }},
      {"Softplus",
       {},
       [](F x) { return std::log(1 + std::exp(x)); },
       [](F x, F) { return std::exp(x) / (std::exp(x) + 1); }},
      {"Softsign",
       {},
       [](F x) { return x / (1 + std::abs(x)); },
       [](F x, F) { return 1 / ((1 + std::abs(x)) * (1 + std::abs(x))); }},
      {"Mish",
       {},
       [](F x) { return x * naive_tanh(softplus(x)); },
       [](F x, F) {
         const F t = naive_tanh(softplus(x));
         return t + x * (1 - t * t) * sigmoid(x);
       }},
      {"Swish",
       {{"alpha", 1.702}},
       [](F x) { return x * sigmoid(1.702f * x); },
       [](F x, F) {
         const F s = sigmoid(1.702f * x);
         return s * (1 + 1.702f * x * (1 - s));
       }},
  };
  return all;
}

// Gradients as eager frameworks make them: every step rounded to bf16.
F b(F x) { return BFloat16(x); }
const std::map<std::string, Slope>& stored_slopes() {
  static const std::map<std::string, Slope> all{
      {"Exp", [](F, F y) { return y; }},
      {"Sqrt", [](F, F y) { return b(1 / b(2 * y)); }},
      {"Reciprocal", [](F, F y) { return -b(y * y); }},
      {"Erf", [](F x, F) { return b(1.128379167f * b(std::exp(-b(x * x)))); }},
      {"Sin", [](F x, F) { return b(std::cos(x)); }},
      {"Tan", [](F, F y) { return b(1 + b(y * y)); }},
      {"Asin", [](F x, F) { return b(1 / std::sqrt(b(1 - b(x * x)))); }},
      {"Atan", [](F x, F) { return b(1 / b(1 + b(x * x))); }},
      {"Cosh", [](F x, F) { return b(std::sinh(x)); }},
      {"Asinh", [](F x, F) { return b(1 / std::sqrt(b(b(x * x) + 1))); }},
      {"Acosh", [](F x, F) { return b(1 / std::sqrt(b(b(x * x) - 1))); }},
      {"Atanh", [](F x, F) { return b(1 / b(1 - b(x * x))); }},
      {"Elu", [](F x, F y) { return x > 0 ? 1 : b(y + 1); }},
      {"Sigmoid", [](F, F y) { return b(y * b(1 - y)); }},
      {"Tanh", [](F, F y) { return b(1 - b(y * y)); }},
      {"Softsign", [](F x, F) { return b(1 / b(b(1 + std::abs(x)) * b(1 + std::abs(x)))); }},
  };
  return all;
}

std::vector<float> floats(const Tensor& t) {
  const Tensor narrow = t.cast(DType::f32);
  const auto values = narrow.values<float>();
  return {values.begin(), values.end()};
}

Problem problem(const Kernel& k, DType type, Pass pass, uint64_t seed) {
  const OperatorEntry& entry = registered<operators>(k.op);
  Attributes values = k.values;
  values.set("shape", std::string("4000"));
  return make_problem(k.op, entry.describe(complete_values(k.op, entry, values), type), {.pass = pass, .seed = seed});
}

// The worst error as a share of its tolerance, after one rounding to the element type.
double share(const Problem& p, const std::vector<float>& got, double factor = 1) {
  const Expected& e = p.expected[0];
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const auto value = static_cast<float>(factor * got[i]);
    const double stored = e.dtype == DType::bf16 ? b(value) : value;
    worst = std::max(worst, std::abs(stored - e.values[i]) / e.tolerance[i]);
  }
  return worst;
}

TEST(ElementwiseBounds, UsualFormulasInF32AndTheirPower) {
  for (const Kernel& k : kernels())
    for (const uint64_t seed : {1, 2, 3}) {
      SCOPED_TRACE(k.op);
      const Problem forward = problem(k, DType::f32, Pass::forward, seed);
      std::vector<float> y;
      for (const float x : floats(forward.inputs[0].second)) y.push_back(k.forward(x));
      EXPECT_LE(share(forward, y), 1) << "forward";
      EXPECT_GT(share(forward, y, 1 + 1e-4), 1) << "forward";
      const Problem backward = problem(k, DType::f32, Pass::backward, seed);
      const auto x = floats(backward.inputs[0].second), dy = floats(backward.output_gradients[0].second);
      std::vector<float> dx;
      for (size_t i = 0; i < x.size(); ++i) dx.push_back(dy[i] * k.slope(x[i], k.forward(x[i])));
      EXPECT_LE(share(backward, dx), 1) << "backward";
      EXPECT_GT(share(backward, dx, 1 + 1e-4), 1) << "backward";
    }
}

TEST(ElementwiseBounds, GradientsStoredStepByStepInBf16AndTheirPower) {
  for (const Kernel& k : kernels()) {
    SCOPED_TRACE(k.op);
    const auto stored = stored_slopes().find(k.op);
    const Problem backward = problem(k, DType::bf16, Pass::backward, 5);
    const auto x = floats(backward.inputs[0].second), dy = floats(backward.output_gradients[0].second);
    std::vector<float> dx;
    for (size_t i = 0; i < x.size(); ++i)
      dx.push_back(dy[i] * (stored == stored_slopes().end() ? k.slope : stored->second)(x[i], b(k.forward(x[i]))));
    EXPECT_LE(share(backward, dx), 1);
    EXPECT_GT(share(backward, dx, 1.1), 1);
  }
}

TEST(ElementwiseBounds, OneGeluIsNotTheOther) {
  const Kernel &by_erf = kernels()[24], &by_tanh = kernels()[25];
  ASSERT_EQ(by_erf.op + by_tanh.op, "GeluGelu");
  const Problem p = problem(by_erf, DType::f32, Pass::forward, 1);
  std::vector<float> y;
  for (const float x : floats(p.inputs[0].second)) y.push_back(by_tanh.forward(x));
  EXPECT_GT(share(p, y), 10);
}

}  // namespace
}  // namespace d5
