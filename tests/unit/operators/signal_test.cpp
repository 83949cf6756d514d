// SPDX-License-Identifier: Apache-2.0
// Expected values: the definition for a few signals, numpy.hanning, ONNX's node tests melweightmatrix and dft_irfft.
#include <numbers>

#include "run_operator.hpp"

namespace d5 {
namespace {

Tensor index(Index value) { return Tensor::from<int64_t>({}, {value}); }

TEST(Dft, OfAnImpulseAndACosine) {
  expect_near(forward(*made("DFT"), {doubles({1, 4, 1}, {1, 0, 0, 0})}).output(0), {1, 4, 2}, {1, 0, 1, 0, 1, 0, 1, 0});
  expect_near(forward(*made("DFT"), {doubles({1, 4, 1}, {0, 1, 0, 0})}).output(0), {1, 4, 2},
              {1, 0, 0, -1, -1, 0, 0, 1});
  std::vector<double> wave;
  for (int n = 0; n < 6; ++n) wave.push_back(std::cos(2 * std::numbers::pi * 2 * n / 6));
  expect_near(forward(*made("DFT", {{"onesided", 1}}), {doubles({1, 6, 1}, wave)}).output(0), {1, 4, 2},
              {0, 0, 0, 0, 3, 0, 0, 0});
}

TEST(Dft, InverseComesBack) {
  const Tensor x = pattern({2, 5, 3, 2}, 3);
  for (const Index axis : {0, 1, 2}) {
    const Tensor y = forward(*made("DFT"), {x, {}, index(axis)}).output(0);
    expect_near(forward(*made("DFT", {{"inverse", 1}}), {y, {}, index(axis)}).output(0), x.shape(), list(x));
  }
  for (const Index length : {6, 7}) {
    const Tensor real = pattern({2, length, 1}, 5);
    const Tensor half = forward(*made("DFT", {{"onesided", 1}}), {real}).output(0);
    expect_near(forward(*made("DFT", {{"onesided", 1}, {"inverse", 1}}), {half, index(length)}).output(0), real.shape(),
                list(real));
  }
}

TEST(Dft, LengthCutsAndContinues) {
  const Tensor x = doubles({1, 3, 1}, {1, 2, 4});
  expect_near(forward(*made("DFT"), {x, index(2)}).output(0), {1, 2, 2}, {3, 0, -1, 0});
  expect_near(forward(*made("DFT"), {x, index(4)}).output(0), {1, 4, 2}, {7, 0, -3, -2, 3, 0, -3, 2});
}

TEST(Dft, Errors) {
  EXPECT_EQ(infer_error("DFT", {}, {{DType::f32, {4, 3}}}),
            "[dft] X is 4x3; a last axis of 1 (real) or 2 (complex) is wanted behind the signal");
  EXPECT_EQ(infer_error("DFT", {{"onesided", 1}}, {{DType::f32, {4, 2}}}),
            "[dft] onesided wants real input; the last axis of X (4x2) is 2");
}

TEST(Stft, FramesAreTransformsOfWindowedPieces) {
  const Tensor x = pattern({2, 9, 1}, 4), window = doubles({4}, {0.5, 1, 1, 0.25});
  const Tensor y = forward(*made("STFT"), {x, index(2), window}).output(0);
  ASSERT_EQ(to_string(y.shape()), "2x3x3x2");
  std::vector<double> piece;
  for (int n = 0; n < 4; ++n) piece.push_back(list(x)[9 + 4 + n] * list(window)[n]);
  const auto wanted = list(forward(*made("DFT", {{"onesided", 1}}), {doubles({1, 4, 1}, piece)}).output(0));
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(list(y)[(1 * 3 + 2) * 6 + i], wanted[i], 1e-12);
}

TEST(Windows, AsNumpyHasThem) {
  const auto window = [](const char* op, Index size, bool periodic) {
    return forward(*made(op, {{"periodic", int64_t{periodic}}}), {index(size)}).output(0);
  };
  expect_near(window("HannWindow", 5, false), {5}, {0, 0.5, 1, 0.5, 0});
  expect_near(window("HannWindow", 4, true), {4}, {0, 0.5, 1, 0.5});
  expect_near(window("BlackmanWindow", 5, false), {5}, {0, 0.34, 1, 0.34, 0});
  expect_near(window("HammingWindow", 3, false), {3}, {4.0 / 46, 1, 4.0 / 46});
}

TEST(MelWeightMatrix, OnnxExample) {
  const auto integer = [](int32_t value) { return Tensor::from<int32_t>({}, {value}); };
  const auto y = list(
      forward(*made("MelWeightMatrix"), {integer(8), integer(16), integer(8192), doubles({}, {0}), doubles({}, {4096})})
          .output(0));
  const std::pair<int, int> ones[] = {{0, 0}, {0, 1}, {1, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 6}, {5, 7}};
  for (int row = 0; row < 9; ++row)
    for (int column = 0; column < 8; ++column)
      EXPECT_EQ(y[row * 8 + column], std::ranges::find(ones, std::pair(row, column)) != std::end(ones))
          << row << " " << column;
}

TEST(Signal, CasesHold) {
  for (const char* op : {"DFT", "STFT", "HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"})
    expect_cases_hold(op);
}

}  // namespace
}  // namespace d5
