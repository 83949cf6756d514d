// SPDX-License-Identifier: Apache-2.0
// The error bounds that operators promise hold for honest implementations in f32, and have power: accumulating in bf16,
// a neighbouring row or a one-element shift breaks them.
#include <algorithm>

#include "d5/core/rng.hpp"
#include "d5/operators/magnitude.hpp"
#include "run_operator.hpp"

namespace d5 {
namespace {

// One addition, in f32 or rounded to bf16 as a narrow accumulator does.
struct Accumulator {
  bool narrow = false;
  float sum = 0;
  void operator+=(float value) {
    sum += value;
    if (narrow) sum = BFloat16(sum);
  }
};

struct Drawn {
  std::unique_ptr<Operator> op;
  OperatorCase one;
  Context c;
};

// Inputs are random f32 values, so that both sides compute with the same numbers.
Drawn random_run(const std::string& name, const Attributes& values, uint64_t seed) {
  const OperatorEntry& entry = registered<operators>(name);
  Drawn run{nullptr, entry.describe(complete_values(name, entry, values), DType::f32), {}};
  run.op = entry.make(run.one.attributes);
  run.c = separated_context(*run.op, run.one, seed);
  const auto redraw = [&](Tensor& t, uint64_t stream, double low, double high) {
    Tensor narrow(DType::f32, t.shape());
    fill_uniform(narrow, Rng(seed, stream), low, high);
    t = narrow.cast(DType::f64);
  };
  for (size_t i = 0; i < run.c.inputs.size(); ++i)
    if (run.one.inputs[i].spec.present && !run.one.inputs[i].spec.known)
      redraw(run.c.inputs[i], i, run.one.inputs[i].low, run.one.inputs[i].high);
  redraw(run.c.output_gradients[0], 100, -1, 1);
  run.op->forward(run.c);
  run.op->backward(run.c);
  return run;
}

std::vector<float> floats(const Tensor& t) {
  const auto values = t.values<double>();
  return {values.begin(), values.end()};
}

// The worst |got - wanted| as a share of its bound.
double share_of_bound(const Drawn& run, Pass pass, size_t index, const std::vector<float>& got) {
  const Tensor scale = error_scale(*run.op, run.c, pass, index);
  const Rounding r = run.op->rounding(run.one.specs(), pass, index);
  const auto wanted = list(pass == Pass::forward ? run.c.output(index) : run.c.input_gradient(index)), s = list(scale);
  EXPECT_EQ(got.size(), wanted.size());
  EXPECT_EQ(s.size(), wanted.size());
  const double u = round_off(DType::f32), growth = std::min(r.terms, 6 * std::sqrt(r.terms)) + r.units;
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(got[i] - wanted[i]) / (growth * u * s[i] + u * std::abs(wanted[i])));
  return worst;
}

// Rows are normalised; gives y and dx.
std::pair<std::vector<float>, std::vector<float>> softmax(const Drawn& run, bool narrow) {
  const auto x = floats(run.c.input(0)), dy = floats(run.c.output_gradient(0));
  const size_t n = static_cast<size_t>(run.c.input(0).shape().back());
  std::vector<float> y(x.size()), dx(x.size());
  for (size_t row = 0; row < x.size(); row += n) {
    const float top = *std::max_element(x.begin() + row, x.begin() + row + n);
    Accumulator sum{narrow}, dot{narrow};
    for (size_t i = row; i < row + n; ++i) sum += y[i] = std::exp(x[i] - top);
    for (size_t i = row; i < row + n; ++i) dot += (y[i] /= sum.sum) * dy[i];
    for (size_t i = row; i < row + n; ++i) dx[i] = y[i] * (dy[i] - dot.sum);
  }
  return {y, dx};
}

TEST(RoundingBounds, Softmax) {
  for (const uint64_t seed : {1, 2, 3, 4, 5})
    for (const char* shape : {"4x3", "3x17", "5x1000"}) {
      const Drawn run = random_run("Softmax", {{"shape", shape}}, seed);
      const auto [y, dx] = softmax(run, false);
      EXPECT_LE(share_of_bound(run, Pass::forward, 0, y), 1) << shape;
      EXPECT_LE(share_of_bound(run, Pass::backward, 0, dx), 1) << shape;
      const auto [bad_y, bad_dx] = softmax(run, true);
      EXPECT_GT(share_of_bound(run, Pass::forward, 0, bad_y), 10) << shape;
      EXPECT_GT(share_of_bound(run, Pass::backward, 0, bad_dx), 10) << shape;
      std::vector<float> shifted = y;
      std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
      EXPECT_GT(share_of_bound(run, Pass::forward, 0, shifted), 100) << shape;
    }
}

struct Normalised {
  std::vector<float> y, mean, variance, dx, dscale, dbias;
};

// Training, with the variance in one pass as E[x^2] - mean^2 or in two.
Normalised batch_normalization(const Drawn& run, bool one_pass, bool narrow, float epsilon, float momentum) {
  const auto x = floats(run.c.input(0)), scale = floats(run.c.input(1)), bias = floats(run.c.input(2)),
             old_mean = floats(run.c.input(3)), old_variance = floats(run.c.input(4)),
             dy = floats(run.c.output_gradient(0));
  const size_t channels = scale.size(), images = static_cast<size_t>(run.c.input(0).shape()[0]);
  const size_t inner = x.size() / channels / images;
  const auto count = static_cast<float>(images * inner);
  Normalised r{x, old_mean, old_mean, x, scale, scale};
  for (size_t c = 0; c < channels; ++c) {
    const auto each = [&](auto&& f) {
      for (size_t n = 0; n < images; ++n)
        for (size_t i = 0; i < inner; ++i) f((n * channels + c) * inner + i);
    };
    Accumulator sum{narrow}, squares{narrow}, total{narrow}, dot{narrow};
    each([&](size_t i) { sum += x[i]; });
    const float mean = sum.sum / count;
    each([&](size_t i) { squares += one_pass ? x[i] * x[i] : (x[i] - mean) * (x[i] - mean); });
    const float variance = one_pass ? squares.sum / count - mean * mean : squares.sum / count;
    const float s = std::sqrt(variance + epsilon);
    each([&](size_t i) {
      r.y[i] = scale[c] * ((x[i] - mean) / s) + bias[c];
      total += dy[i];
      dot += dy[i] * ((x[i] - mean) / s);
    });
    each([&](size_t i) { r.dx[i] = scale[c] / s * (dy[i] - total.sum / count - (x[i] - mean) / s * dot.sum / count); });
    r.dscale[c] = dot.sum;
    r.dbias[c] = total.sum;
    r.mean[c] = momentum * old_mean[c] + (1 - momentum) * mean;
    r.variance[c] = momentum * old_variance[c] + (1 - momentum) * variance;
  }
  return r;
}

TEST(RoundingBounds, BatchNormalizationTraining) {
  for (const uint64_t seed : {1, 2, 3, 4, 5})
    for (const char* shape : {"5x4", "2x3x4x5", "8x16x14x14"}) {
      const Drawn run = random_run("BatchNormalization", {{"shape", shape}}, seed);
      const auto shares = [&](const Normalised& r) {
        return std::vector{
            share_of_bound(run, Pass::forward, 0, r.y),        share_of_bound(run, Pass::forward, 1, r.mean),
            share_of_bound(run, Pass::forward, 2, r.variance), share_of_bound(run, Pass::backward, 0, r.dx),
            share_of_bound(run, Pass::backward, 1, r.dscale),  share_of_bound(run, Pass::backward, 2, r.dbias)};
      };
      for (const bool one_pass : {false, true})
        for (const double share : shares(batch_normalization(run, one_pass, false, 1e-5f, 0.9f)))
          EXPECT_LE(share, 1) << shape;
      for (const double share : shares(batch_normalization(run, false, true, 1e-5f, 0.9f)))
        EXPECT_GT(share, 10) << shape;
      // The unbiased variance of some libraries is not ONNX's.
      Normalised unbiased = batch_normalization(run, false, false, 1e-5f, 0.9f);
      const auto n = static_cast<float>(run.c.input(0).elements() / run.c.input(1).elements());
      for (size_t i = 0; i < unbiased.variance.size(); ++i) {
        const auto old = static_cast<float>(list(run.c.input(4))[i]);
        unbiased.variance[i] = 0.9f * old + (unbiased.variance[i] - 0.9f * old) * n / (n - 1);
      }
      EXPECT_GT(share_of_bound(run, Pass::forward, 2, unbiased.variance), 1) << shape;
    }
}

TEST(RoundingBounds, BatchNormalizationInference) {
  const Drawn run = random_run("BatchNormalization", {{"shape", "4x5x7"}, {"training", false}}, 3);
  const auto x = floats(run.c.input(0)), scale = floats(run.c.input(1)), bias = floats(run.c.input(2)),
             mean = floats(run.c.input(3)), variance = floats(run.c.input(4)), dy = floats(run.c.output_gradient(0));
  std::vector<float> folded(x.size()), dx(x.size()), next_channel(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i / 7 % 5, d = (c + 1) % 5;
    const float factor = scale[c] / std::sqrt(variance[c] + 1e-5f);
    folded[i] = factor * x[i] + (bias[c] - mean[c] * factor);
    next_channel[i] = scale[c] / std::sqrt(variance[d] + 1e-5f) * (x[i] - mean[c]) + bias[c];
    dx[i] = factor * dy[i];
  }
  EXPECT_LE(share_of_bound(run, Pass::forward, 0, folded), 1);
  EXPECT_LE(share_of_bound(run, Pass::backward, 0, dx), 1);
  EXPECT_GT(share_of_bound(run, Pass::forward, 0, next_channel), 100);
}

TEST(RoundingBounds, GemmWithFactorsOfBothSigns) {
  for (const double beta : {1.0, -1.0}) {
    const Drawn run = random_run("Gemm", {{"m", 9}, {"n", 7}, {"k", 500}, {"beta", beta}}, 4);
    const auto a = floats(run.c.input(0)), b = floats(run.c.input(1)), bias = floats(run.c.input(2));
    const auto product = [&](bool narrow) {
      std::vector<float> y(9 * 7);
      for (size_t i = 0; i < 9; ++i)
        for (size_t j = 0; j < 7; ++j) {
          Accumulator sum{narrow};
          for (size_t l = 0; l < 500; ++l) sum += a[i * 500 + l] * b[l * 7 + j];
          y[i * 7 + j] = sum.sum + static_cast<float>(beta) * bias[j];
        }
      return y;
    };
    EXPECT_LE(share_of_bound(run, Pass::forward, 0, product(false)), 1);
    EXPECT_GT(share_of_bound(run, Pass::forward, 0, product(true)), 10);
    for (const double value : list(error_scale(*run.op, run.c, Pass::forward, 0))) EXPECT_GT(value, 50);  // about k / 4
  }
}

// A whole row by f32 arithmetic, as kernels compute these reductions; gives y and dx.
std::pair<std::vector<float>, std::vector<float>> reduction(const std::string& op, const Drawn& run, bool narrow) {
  const auto x = floats(run.c.input(0)), dy = floats(run.c.output_gradient(0));
  const size_t n = static_cast<size_t>(run.c.input(0).shape().back());
  std::vector<float> y, dx(x.size());
  for (size_t row = 0; row < x.size(); row += n) {
    const float top = op == "ReduceLogSumExp" ? *std::max_element(x.begin() + row, x.begin() + row + n) : 0;
    Accumulator sum{narrow};
    float product = 1;
    for (size_t i = row; i < row + n; ++i) {
      sum += op == "ReduceL2" ? x[i] * x[i] : op == "ReduceLogSumExp" ? std::exp(x[i] - top) : x[i];
      product *= x[i];
      if (narrow) product = BFloat16(product);
    }
    y.push_back(op == "ReduceMean"   ? sum.sum / static_cast<float>(n)
                : op == "ReduceL2"   ? std::sqrt(sum.sum)
                : op == "ReduceProd" ? product
                                     : top + std::log(sum.sum));
    for (size_t i = row; i < row + n; ++i) {
      const float d = dy[y.size() - 1];
      dx[i] = op == "ReduceMean"     ? d / static_cast<float>(n)
              : op == "ReduceL2"     ? d * x[i] / y.back()
              : op == "ReduceProd"   ? d * y.back() / x[i]
              : op == "ReduceLogSum" ? d / sum.sum
                                     : d * std::exp(x[i] - y.back());
    }
  }
  return {y, dx};
}

TEST(RoundingBounds, Reductions) {
  for (const char* op : {"ReduceMean", "ReduceL2", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp"})
    for (const uint64_t seed : {1, 2, 3, 4, 5})
      for (const char* shape : {"4x3", "3x17", "5x200"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", op, shape, seed));
        const Drawn run = random_run(op, {{"shape", shape}, {"axes", "1"}}, seed);
        const auto [y, dx] = reduction(op, run, false);
        EXPECT_LE(share_of_bound(run, Pass::forward, 0, y), 1);
        EXPECT_LE(share_of_bound(run, Pass::backward, 0, dx), 1);
        const auto [bad_y, bad_dx] = reduction(op, run, true);
        EXPECT_GT(share_of_bound(run, Pass::forward, 0, bad_y), 5);
        if (op != std::string("ReduceMean")) {
          EXPECT_GT(share_of_bound(run, Pass::backward, 0, bad_dx), 5);
        }
        std::vector<float> shifted = dx;
        std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
        EXPECT_GT(share_of_bound(run, Pass::backward, 0, shifted), 100);
      }
}

}  // namespace
}  // namespace d5
