// SPDX-License-Identifier: Apache-2.0
// The bounds of Div, Pow, LogSoftmax and the losses are honest for the usual formulas, in f32 and with every step
// stored in bf16, and have power: a result that is off by a thousandth (in bf16 a tenth) does not pass.
#include <algorithm>

#include "d5/bench/problem.hpp"
#include "run_operator.hpp"

namespace d5 {
namespace {

using Floats = std::vector<float>;

Floats floats(const Tensor& t) {
  const Tensor narrow = t.cast(DType::f32);
  const auto values = narrow.values<float>();
  return {values.begin(), values.end()};
}

struct Trial {
  Trial(const std::string& op, Attributes values, DType dtype, Pass pass) : type(dtype) {
    const OperatorEntry& entry = registered<operators>(op);
    problem = make_problem(op, entry.describe(complete_values(op, entry, values), type), {.pass = pass, .seed = 3});
  }
  Floats input(size_t i) const { return floats(problem.inputs[i].second); }
  Floats gradient() const { return floats(problem.output_gradients[0].second); }
  // A step that is stored in the element type.
  float s(float x) const { return type == DType::bf16 ? float{BFloat16(x)} : x; }
  double share(size_t result, const Floats& got, double factor = 1) const {
    const Expected& e = problem.expected[result];
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, std::abs(s(static_cast<float>(factor * got[i])) - e.values[i]) / e.tolerance[i]);
    return worst;
  }
  void judge(size_t result, const Floats& got, const char* what) const {
    EXPECT_LE(share(result, got), 1) << what << " " << name(type);
    EXPECT_GT(share(result, got, type == DType::bf16 ? 1.1 : 1.001), 1) << what << " " << name(type);
  }

  DType type;
  Problem problem;
};

const Attributes pair{{"a", "40x50"}, {"b", "40x50"}};

TEST(LossBounds, DivAndPow) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const char* op : {"Div", "Pow"}) {
      const bool div = std::string(op) == "Div";
      const Trial forward(op, pair, type, Pass::forward);
      const Floats a = forward.input(0), b = forward.input(1);
      Floats y;
      for (size_t i = 0; i < a.size(); ++i) y.push_back(div ? a[i] * (1 / b[i]) : std::exp(b[i] * std::log(a[i])));
      forward.judge(0, y, op);

      const Trial t(op, pair, type, Pass::backward);
      const Floats dy = t.gradient();
      Floats da, db;
      for (size_t i = 0; i < a.size(); ++i) {
        const float power = t.s(std::pow(a[i], b[i])), logarithm = t.s(std::log(a[i]));
        da.push_back(div ? dy[i] / b[i] : dy[i] * t.s(b[i] * t.s(std::pow(a[i], b[i] - 1))));
        db.push_back(div ? -dy[i] * t.s(t.s(a[i] / b[i]) / b[i]) : dy[i] * t.s(power * logarithm));
      }
      t.judge(0, da, op);
      t.judge(1, db, op);
    }
  }
}

// Rows of n scores: z and, for a gradient dz, dx.
Floats log_softmax(const Trial& t, const Floats& x, size_t n) {
  Floats z(x.size());
  for (size_t row = 0; row < x.size(); row += n) {
    const float top = *std::max_element(x.begin() + row, x.begin() + row + n);
    float sum = 0;
    for (size_t i = row; i < row + n; ++i) sum += std::exp(x[i] - top);
    for (size_t i = row; i < row + n; ++i) z[i] = t.s(x[i] - (top + std::log(sum)));
  }
  return z;
}
Floats log_softmax_gradient(const Floats& z, const Floats& dz, size_t n) {
  Floats dx(z.size());
  for (size_t row = 0; row < z.size(); row += n) {
    float sum = 0;
    for (size_t i = row; i < row + n; ++i) sum += dz[i];
    for (size_t i = row; i < row + n; ++i) dx[i] = dz[i] - std::exp(z[i]) * sum;
  }
  return dx;
}

TEST(LossBounds, LogSoftmaxAndSoftmaxCrossEntropyLoss) {
  constexpr size_t rows = 20, n = 100;
  for (const DType type : {DType::f32, DType::bf16}) {
    const Trial plain("LogSoftmax", {{"shape", "20x100"}}, type, Pass::forward);
    plain.judge(0, log_softmax(plain, plain.input(0), n), "LogSoftmax");
    const Trial back("LogSoftmax", {{"shape", "20x100"}}, type, Pass::backward);
    back.judge(0, log_softmax_gradient(log_softmax(back, back.input(0), n), back.gradient(), n), "LogSoftmax gradient");

    const Attributes values{{"shape", "20x100"}, {"weights", true}};
    const Trial loss("SoftmaxCrossEntropyLoss", values, type, Pass::forward);
    const Floats z = log_softmax(loss, loss.input(0), n), labels = loss.input(1), w = loss.input(2);
    float sum = 0, weight = 0;
    for (size_t i = 0; i < rows; ++i) {
      const auto c = static_cast<size_t>(labels[i]);
      sum -= w[c] * z[i * n + c];
      weight += w[c];
    }
    loss.judge(0, {sum / weight}, "SoftmaxCrossEntropyLoss");
    const Trial gradient("SoftmaxCrossEntropyLoss", values, type, Pass::backward);
    Floats dz(z.size());
    for (size_t i = 0; i < rows; ++i) {
      const auto c = static_cast<size_t>(labels[i]);
      dz[i * n + c] = gradient.s(-w[c] * gradient.gradient()[0] / weight);
    }
    gradient.judge(0, log_softmax_gradient(z, dz, n), "SoftmaxCrossEntropyLoss gradient");
  }
}

TEST(LossBounds, MeanSquaredErrorAndBinaryCrossEntropy) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const bool squared : {true, false}) {
      const std::string op = squared ? "MeanSquaredError" : "BinaryCrossEntropy";
      const Trial t(op, {{"shape", "700"}}, type, Pass::forward);
      const Floats p = t.input(0), q = t.input(1);
      const auto count = static_cast<float>(p.size());
      float sum = 0;
      for (size_t i = 0; i < p.size(); ++i)
        sum +=
            t.s(squared ? (p[i] - q[i]) * (p[i] - q[i]) : -(q[i] * std::log(p[i]) + (1 - q[i]) * std::log(1 - p[i])));
      t.judge(0, {sum / count}, op.c_str());
      const Trial back(op, {{"shape", "700"}}, type, Pass::backward);
      const float dy = back.gradient()[0];
      Floats dp;
      for (size_t i = 0; i < p.size(); ++i)
        dp.push_back(squared ? back.s(back.s(2 / count) * back.s(p[i] - q[i])) * dy
                             : back.s(dy / count) * (p[i] - q[i]) / ((1 - p[i]) * p[i]));
      back.judge(0, dp, op.c_str());
    }
}

}  // namespace
}  // namespace d5
