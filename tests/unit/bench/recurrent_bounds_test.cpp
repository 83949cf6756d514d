// SPDX-License-Identifier: Apache-2.0
// The bounds of recurrent operators hold for honest implementations: in f32, and in bf16 with every intermediate
// rounded to bf16, as frameworks do that unroll the steps. And they have power: a state that lags one step behind
// breaks them.
#include <gtest/gtest.h>

#include <cmath>

#include "d5/bench/problem.hpp"

namespace d5 {
namespace {

struct Simulation {
  bool narrow;
  int steps, batch, hidden, gates;
  std::vector<float> x, w, r, bias, dy, dh_last, dc_last;

  float round(float v) const { return narrow ? static_cast<float>(BFloat16(v)) : v; }
  int row(int t, int b) const { return t * batch + b; }

  // Row times matrix: sums in f32, the result rounded.
  std::vector<float> product(const float* row, const std::vector<float>& matrix, bool transposed, int n, int k) const {
    std::vector<float> y(n);
    for (int i = 0; i < n; ++i) {
      float sum = 0;
      for (int j = 0; j < k; ++j) sum += row[j] * matrix[transposed ? j * n + i : i * k + j];
      y[i] = round(sum);
    }
    return y;
  }
  // x W^T + Wb and h R^T + Rb, each rounded, of all gates.
  std::vector<float> x_part(int t, int b) const {
    auto y = product(&x[row(t, b) * hidden], w, false, gates * hidden, hidden);
    for (int i = 0; i < gates * hidden; ++i) y[i] = round(y[i] + bias[i]);
    return y;
  }
  std::vector<float> h_part(const std::vector<float>& h, int b) const {
    auto y = product(&h[b * hidden], r, false, gates * hidden, hidden);
    for (int i = 0; i < gates * hidden; ++i) y[i] = round(y[i] + bias[gates * hidden + i]);
    return y;
  }
};

std::vector<float> floats(const Tensor& t) {
  const Tensor wide = t.cast(DType::f64);
  const auto values = wide.values<double>();
  return {values.begin(), values.end()};
}

Simulation simulation(const Problem& problem, DType type, int steps, int batch, int hidden, int gates) {
  Simulation s{type == DType::bf16, steps, batch, hidden, gates, {}, {}, {}, {}, {}, {}, {}};
  s.x = floats(problem.inputs[0].second);
  s.w = floats(problem.inputs[1].second);
  s.r = floats(problem.inputs[2].second);
  s.bias = floats(problem.inputs[3].second);
  if (problem.pass == Pass::backward) {
    s.dy = floats(problem.output_gradients[0].second);
    s.dh_last = floats(problem.output_gradients[1].second);
    if (problem.output_gradients.size() > 2) s.dc_last = floats(problem.output_gradients[2].second);
  }
  return s;
}

double worst_share(const Expected& e, const std::vector<float>& got) {
  EXPECT_EQ(e.values.size(), got.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - e.values[i]) / e.tolerance[i]);
  return worst;
}

float sigmoid(float v) { return 1 / (1 + std::exp(-v)); }

struct Results {
  std::vector<float> y, dx, dw, dr, db;
};

// An LSTM step by step. `lag`: the recurrent product reads the state of the step before.
Results lstm(const Simulation& s, int lag = 0) {
  const int h = s.hidden, n = 4 * h;
  Results out;
  out.y.resize(s.steps * s.batch * h);
  std::vector<std::vector<float>> states(1, std::vector<float>(s.batch * h, 0)), cells = states, acts;
  for (int t = 0; t < s.steps; ++t) {
    std::vector<float> now(s.batch * h), c(s.batch * h), act(s.batch * 5 * h);
    for (int b = 0; b < s.batch; ++b) {
      const auto from_x = s.x_part(t, b), from_h = s.h_part(states[std::max(0, t - lag)], b);
      for (int j = 0; j < h; ++j) {
        const auto sum = [&](int gate) { return s.round(from_x[gate * h + j] + from_h[gate * h + j]); };
        const float i = s.round(sigmoid(sum(0))), o = s.round(sigmoid(sum(1))), f = s.round(sigmoid(sum(2))),
                    g = s.round(std::tanh(sum(3)));
        const int e = b * h + j;
        c[e] = s.round(s.round(f * cells[t][e]) + s.round(i * g));
        const float u = s.round(std::tanh(c[e]));
        now[e] = out.y[(t * s.batch + b) * h + j] = s.round(o * u);
        const float all[] = {i, o, f, g, u};
        for (int k = 0; k < 5; ++k) act[(b * 5 + k) * h + j] = all[k];
      }
    }
    states.push_back(now);
    cells.push_back(c);
    acts.push_back(act);
  }
  if (s.dy.empty()) return out;

  out.dx.resize(s.x.size());
  out.dw.resize(s.w.size());
  out.dr.resize(s.r.size());
  out.db.resize(s.bias.size());
  std::vector<float> dh = s.dh_last, dc = s.dc_last;
  for (int t = s.steps - 1; t >= 0; --t) {
    std::vector<float> dr_step(s.r.size(), 0), dw_step(s.w.size(), 0), db_step(n, 0);
    for (int b = 0; b < s.batch; ++b) {
      std::vector<float> da(n);
      for (int j = 0; j < h; ++j) {
        const int e = b * h + j;
        const float* a = &acts[t][b * 5 * h];
        const float i = a[j], o = a[h + j], f = a[2 * h + j], g = a[3 * h + j], u = a[4 * h + j];
        const float d = s.round(dh[e] + s.dy[(t * s.batch + b) * h + j]);
        const float total = s.round(dc[e] + s.round(s.round(d * o) * (1 - u * u)));
        const auto gate = [&](float v, float slope) { return s.round(s.round(v) * slope); };
        da[j] = gate(total * g, i * (1 - i));
        da[h + j] = gate(d * u, o * (1 - o));
        da[2 * h + j] = gate(total * cells[t][e], f * (1 - f));
        da[3 * h + j] = gate(total * i, 1 - g * g);
        dc[e] = s.round(total * f);
      }
      const auto back_x = s.product(da.data(), s.w, true, h, n), back_h = s.product(da.data(), s.r, true, h, n);
      for (int j = 0; j < h; ++j) {
        out.dx[s.row(t, b) * h + j] = back_x[j];
        dh[b * h + j] = back_h[j];
      }
      for (int i = 0; i < n; ++i) {
        db_step[i] += da[i];
        for (int j = 0; j < h; ++j) {
          dw_step[i * h + j] += da[i] * s.x[s.row(t, b) * h + j];
          dr_step[i * h + j] += da[i] * states[t][b * h + j];
        }
      }
    }
    // Each step's share, rounded, is added to a sum that is rounded too.
    const auto add = [&](std::vector<float>& to, size_t first, const std::vector<float>& from) {
      for (size_t i = 0; i < from.size(); ++i) to[first + i] = s.round(to[first + i] + s.round(from[i]));
    };
    add(out.dw, 0, dw_step);
    add(out.dr, 0, dr_step);
    add(out.db, 0, db_step);
    add(out.db, static_cast<size_t>(n), db_step);
  }
  return out;
}

// The same for a GRU with linear_before_reset.
Results gru(const Simulation& s, int lag = 0) {
  const int h = s.hidden, n = 3 * h;
  Results out;
  out.y.resize(s.steps * s.batch * h);
  std::vector<std::vector<float>> states(1, std::vector<float>(s.batch * h, 0)), acts;
  for (int t = 0; t < s.steps; ++t) {
    std::vector<float> now(s.batch * h), act(s.batch * 4 * h);
    for (int b = 0; b < s.batch; ++b) {
      const auto from_x = s.x_part(t, b), from_h = s.h_part(states[std::max(0, t - lag)], b);
      for (int j = 0; j < h; ++j) {
        const auto sum = [&](int gate) { return s.round(from_x[gate * h + j] + from_h[gate * h + j]); };
        const float z = s.round(sigmoid(sum(0))), r = s.round(sigmoid(sum(1))), q = from_h[2 * h + j];
        const float g = s.round(std::tanh(s.round(from_x[2 * h + j] + s.round(r * q))));
        const int e = b * h + j;
        now[e] = out.y[(t * s.batch + b) * h + j] = s.round(s.round(s.round(1 - z) * g) + s.round(z * states[t][e]));
        const float all[] = {z, r, g, q};
        for (int k = 0; k < 4; ++k) act[(b * 4 + k) * h + j] = all[k];
      }
    }
    states.push_back(now);
    acts.push_back(act);
  }
  if (s.dy.empty()) return out;

  out.dx.resize(s.x.size());
  out.dw.resize(s.w.size());
  out.dr.resize(s.r.size());
  out.db.resize(s.bias.size());
  std::vector<float> dh = s.dh_last;
  for (int t = s.steps - 1; t >= 0; --t) {
    std::vector<float> dr_step(s.r.size(), 0), dw_step(s.w.size(), 0), da_step(n, 0), dq_step(n, 0);
    for (int b = 0; b < s.batch; ++b) {
      std::vector<float> da(n), dq(n), direct(h);
      for (int j = 0; j < h; ++j) {
        const float* a = &acts[t][b * 4 * h];
        const float z = a[j], r = a[h + j], g = a[2 * h + j], q = a[3 * h + j], before = states[t][b * h + j];
        const float d = s.round(dh[b * h + j] + s.dy[(t * s.batch + b) * h + j]);
        da[j] = dq[j] = s.round(s.round(d * s.round(before - g)) * (z * (1 - z)));
        da[2 * h + j] = s.round(s.round(d * s.round(1 - z)) * (1 - g * g));
        dq[2 * h + j] = s.round(da[2 * h + j] * r);
        da[h + j] = dq[h + j] = s.round(s.round(da[2 * h + j] * q) * (r * (1 - r)));
        direct[j] = s.round(d * z);
      }
      const auto back_x = s.product(da.data(), s.w, true, h, n), back_h = s.product(dq.data(), s.r, true, h, n);
      for (int j = 0; j < h; ++j) {
        out.dx[s.row(t, b) * h + j] = back_x[j];
        dh[b * h + j] = s.round(direct[j] + back_h[j]);
      }
      for (int i = 0; i < n; ++i) {
        da_step[i] += da[i];
        dq_step[i] += dq[i];
        for (int j = 0; j < h; ++j) {
          dw_step[i * h + j] += da[i] * s.x[s.row(t, b) * h + j];
          dr_step[i * h + j] += dq[i] * states[t][b * h + j];
        }
      }
    }
    const auto add = [&](std::vector<float>& to, size_t first, const std::vector<float>& from) {
      for (size_t i = 0; i < from.size(); ++i) to[first + i] = s.round(to[first + i] + s.round(from[i]));
    };
    add(out.dw, 0, dw_step);
    add(out.dr, 0, dr_step);
    add(out.db, 0, da_step);
    add(out.db, static_cast<size_t>(n), dq_step);
  }
  return out;
}

void expect_bounds(const std::string& op, int gates, Results (*simulate)(const Simulation&, int)) {
  constexpr int steps = 40, batch = 2, hidden = 32;
  const OperatorEntry& entry = registered<operators>(op);
  Attributes values{{"hidden", hidden}, {"batch", batch}, {"timesteps", steps}};
  if (op == "GRU") values.set("linear_before_reset", true);
  for (const DType type : {DType::f32, DType::bf16})
    for (const uint64_t seed : {1, 2, 3}) {
      SCOPED_TRACE(std::string(name(type)) + " seed " + std::to_string(seed));
      const OperatorCase one = entry.describe(complete_values(op, entry, values), type);
      ProblemOptions options{.pass = Pass::forward, .seed = seed};
      options.full_flops = 1e12;
      const Problem forward = make_problem(op, one, options);
      const Simulation s = simulation(forward, type, steps, batch, hidden, gates);
      EXPECT_LE(worst_share(forward.expected[0], simulate(s, 0).y), 1);
      EXPECT_GT(worst_share(forward.expected[0], simulate(s, 1).y), 2);
      options.pass = Pass::backward;
      const Problem backward = make_problem(op, one, options);
      const Results r = simulate(simulation(backward, type, steps, batch, hidden, gates), 0);
      EXPECT_LE(worst_share(backward.expected[0], r.dx), 1) << "X";
      EXPECT_LE(worst_share(backward.expected[1], r.dw), 1) << "W";
      EXPECT_LE(worst_share(backward.expected[2], r.dr), 1) << "R";
      EXPECT_LE(worst_share(backward.expected[3], r.db), 1) << "B";
      // A row too far: gradients of neighbouring hidden units are not each other's.
      std::vector<float> shifted = r.dr;
      std::rotate(shifted.begin(), shifted.begin() + hidden, shifted.end());
      EXPECT_GT(worst_share(backward.expected[2], shifted), 2);
    }
}

TEST(RecurrentBounds, Lstm) { expect_bounds("LSTM", 4, lstm); }
TEST(RecurrentBounds, Gru) { expect_bounds("GRU", 3, gru); }

}  // namespace
}  // namespace d5
