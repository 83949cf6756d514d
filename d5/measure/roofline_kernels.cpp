// SPDX-License-Identifier: Apache-2.0
// The portable loops, for processors without a loop of their own, and the choice among all.
#include "d5/measure/roofline_kernels.hpp"

#include "d5/measure/isa.hpp"
#include "d5/measure/roofline_kernels_x86.hpp"

namespace d5 {
namespace {

// The factor and the term keep every sum near 1, so that nothing overflows or becomes denormal.
template <class T>
void multiply_add(int64_t iterations) {
  constexpr int sums = 128 / sizeof(T);
  T sum[sums];
  for (int j = 0; j < sums; ++j) sum[j] = T(j) / sums;
  for (int64_t i = 0; i < iterations; ++i)
    for (int j = 0; j < sums; ++j) sum[j] = sum[j] * T(0.5) + T(0.5);
  asm volatile("" : : "r"(sum) : "memory");  // the sums are wanted
}

float read(float* a, const float*, const float*, int64_t floats, int64_t passes) {
  constexpr int sums = 32;
  float sum[sums] = {};
  for (int64_t pass = 0; pass < passes; ++pass)
    for (int64_t i = 0; i < floats; i += sums)
      for (int j = 0; j < sums; ++j) sum[j] += a[i + j];
  float total = 0;
  for (float s : sum) total += s;
  return total;
}

float copy(float* a, const float* b, const float*, int64_t floats, int64_t passes) {
  for (int64_t pass = 0; pass < passes; ++pass) {
    for (int64_t i = 0; i < floats; ++i) a[i] = b[i];
    asm volatile("" ::: "memory");  // every pass is carried out
  }
  return a[0];
}

float triad(float* a, const float* b, const float* c, int64_t floats, int64_t passes) {
  for (int64_t pass = 0; pass < passes; ++pass) {
    for (int64_t i = 0; i < floats; ++i) a[i] = b[i] + 0.5f * c[i];
    asm volatile("" ::: "memory");
  }
  return a[0];
}

}  // namespace

const std::vector<PeakKernel>& usable_peak_kernels() {
  static const std::vector<PeakKernel> kernels = [] {
    std::vector<PeakKernel> all = x86_peak_kernels(usable_isa());
    if (all.empty()) {
      all.push_back({DType::f32, "portable", 2.0 * 128 / sizeof(float), multiply_add<float>});
      all.push_back({DType::f64, "portable", 2.0 * 128 / sizeof(double), multiply_add<double>});
    }
    return all;
  }();
  return kernels;
}

std::span<const StreamKernel> usable_stream_kernels() {
  static constexpr StreamKernel portable[] = {{"read", 1, read}, {"copy", 2, copy}, {"triad", 3, triad}};
  const auto native = x86_stream_kernels(usable_isa());
  return native.empty() ? std::span<const StreamKernel>(portable) : native;
}

}  // namespace d5
