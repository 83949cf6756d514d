// SPDX-License-Identifier: Apache-2.0
// The bounds of LayerNormalization and Attention hold in f32, and in bf16 with every intermediate rounded to bf16; a
// neighbour's value breaks them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "d5/bench/problem.hpp"

namespace d5 {
namespace {

using Floats = std::vector<float>;

Floats floats(const Tensor& t) {
  const Tensor wide = t.cast(DType::f64);
  const auto values = wide.values<double>();
  return {values.begin(), values.end()};
}

double worst_share(const Expected& e, const Floats& got) {
  EXPECT_EQ(e.values.size(), got.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - e.values[i]) / e.tolerance[i]);
  return worst;
}

// Simulates forward and backward problems of one case in f32 and bf16; `run` gives the expected results in order.
void expect_bounds(const std::string& op, const Attributes& values,
                   const std::function<std::vector<Floats>(const Problem&, const std::function<float(float)>&)>& run) {
  const OperatorEntry& entry = registered<operators>(op);
  for (const DType type : {DType::f32, DType::bf16})
    for (const Pass pass : {Pass::forward, Pass::backward})
      for (const uint64_t seed : {1, 2, 3}) {
        SCOPED_TRACE(op + " " + std::string(name(type)) + (pass == Pass::forward ? " forward" : " backward"));
        ProblemOptions options{.pass = pass, .seed = seed};
        options.full_flops = 1e12;
        const Problem problem = make_problem(op, entry.describe(complete_values(op, entry, values), type), options);
        const auto results =
            run(problem, [type](float v) { return type == DType::bf16 ? static_cast<float>(BFloat16(v)) : v; });
        ASSERT_EQ(results.size(), problem.expected.size());
        for (size_t i = 0; i < results.size(); ++i) {
          EXPECT_LE(worst_share(problem.expected[i], results[i]), 1) << problem.expected[i].value;
          Floats shifted = results[i];
          std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
          EXPECT_GT(worst_share(problem.expected[i], shifted), 3) << problem.expected[i].value;
        }
      }
}

TEST(LayerBounds, LayerNormalization) {
  constexpr int rows = 16, n = 96;
  expect_bounds("LayerNormalization", {{"shape", "16x96"}}, [](const Problem& p, const auto& round) {
    const Floats x = floats(p.inputs[0].second), scale = floats(p.inputs[1].second), bias = floats(p.inputs[2].second);
    const bool backward = p.pass == Pass::backward;
    const Floats dy = backward ? floats(p.output_gradients[0].second) : Floats();
    Floats y(x.size()), dx(x.size()), dscale(n), dbias(n);
    for (int r = 0; r < rows; ++r) {
      float sum = 0, squares = 0, dot = 0, total = 0;
      for (int j = 0; j < n; ++j) {
        sum += x[r * n + j];
        squares += x[r * n + j] * x[r * n + j];
      }
      const float mean = round(sum / n), inverse = round(1 / std::sqrt(squares / n - sum / n * sum / n + 1e-5f));
      const auto z = [&](int j) { return round((x[r * n + j] - mean) * inverse); };
      for (int j = 0; j < n; ++j) {
        const int i = r * n + j;
        y[i] = round(round(z(j) * scale[j]) + bias[j]);
        if (!backward) continue;
        const float q = round(dy[i] * scale[j]);
        total += q / n;
        dot += q * z(j) / n;
        dscale[j] += round(dy[i] * z(j));
        dbias[j] += dy[i];
      }
      for (int j = 0; j < n && backward; ++j)
        dx[r * n + j] = round(round(round(dy[r * n + j] * scale[j]) - round(total) - z(j) * round(dot)) * inverse);
    }
    for (float& v : dscale) v = round(v);
    for (float& v : dbias) v = round(v);
    return backward ? std::vector<Floats>{dx, dscale, dbias} : std::vector<Floats>{y};
  });
}

TEST(LayerBounds, Attention) {
  constexpr int heads = 3, n = 40, size = 24;
  const Attributes values{{"batch", 1}, {"heads", heads}, {"queries", n}, {"size", size}};
  expect_bounds("Attention", values, [](const Problem& p, const auto& round) {
    const Floats q = floats(p.inputs[0].second), k = floats(p.inputs[1].second), v = floats(p.inputs[2].second);
    const bool backward = p.pass == Pass::backward;
    const Floats dy = backward ? floats(p.output_gradients[0].second) : Floats();
    Floats y(q.size()), dq(q.size()), dk(q.size()), dv(q.size());
    const float root = std::sqrt(1 / std::sqrt(static_cast<float>(size)));
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < n; ++i) {
        const auto at = [&](int row, int d) { return (h * n + row) * size + d; };
        Floats w(n), dp(n);
        float sum = 0, dot = 0;
        for (int j = 0; j < n; ++j) {
          float s = 0;
          for (int d = 0; d < size; ++d) s += round(q[at(i, d)] * root) * round(k[at(j, d)] * root);
          sum += w[j] = std::exp(round(s));
        }
        for (int j = 0; j < n; ++j) w[j] = round(w[j] / sum);
        for (int d = 0; d < size; ++d) {
          float s = 0;
          for (int j = 0; j < n; ++j) s += w[j] * v[at(j, d)];
          y[at(i, d)] = round(s);
        }
        for (int j = 0; j < n && backward; ++j) {
          for (int d = 0; d < size; ++d) dp[j] += dy[at(i, d)] * v[at(j, d)];
          dp[j] = round(dp[j]);
          dot += w[j] * dp[j];
        }
        for (int j = 0; j < n && backward; ++j) {
          const float ds = round(w[j] * (dp[j] - dot));
          for (int d = 0; d < size; ++d) {
            dq[at(i, d)] += ds * round(k[at(j, d)] * root) * root;
            dk[at(j, d)] += ds * round(q[at(i, d)] * root) * root;
            dv[at(j, d)] += w[j] * dy[at(i, d)];
          }
        }
      }
    for (Floats* all : {&dq, &dk, &dv})
      for (float& value : *all) value = round(value);
    return backward ? std::vector<Floats>{dq, dk, dv} : std::vector<Floats>{y};
  });
}

}  // namespace
}  // namespace d5
