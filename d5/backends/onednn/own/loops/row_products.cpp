// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/own/loops/lanes.hpp"
#include "d5/backends/onednn/own/row_loops.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

template <int count>
D5_INLINE void some_rows(const float* a, const float* x, const float* bias, float* y, int64_t n, bool relu) {
  Vector sums[count] = {};
  const int64_t whole = n / width * width;
  for (int64_t k = 0; k < whole; k += width) {
    const Vector v = load_vector(x + k);
    for (int r = 0; r < count; ++r) sums[r] += load_vector(a + r * n + k) * v;
  }
  if (whole < n) {
    const Vector v = load_part(x + whole, n - whole);
    for (int r = 0; r < count; ++r) sums[r] += load_part(a + r * n + whole, n - whole) * v;
  }
  for (int r = 0; r < count; ++r) {
    float sum = bias ? bias[r] : 0;
    for (int lane = 0; lane < width; ++lane) sum += sums[r][lane];
    y[r] = relu && sum < 0 ? 0 : sum;
  }
}

void all_rows(const float* a, const float* x, const float* bias, float* y, int64_t rows, int64_t n, bool relu) {
  constexpr int together = 4;
  int64_t i = 0;
  for (; i + together <= rows; i += together)
    some_rows<together>(a + i * n, x, bias ? bias + i : nullptr, y + i, n, relu);
  for (; i < rows; ++i) some_rows<1>(a + i * n, x, bias ? bias + i : nullptr, y + i, n, relu);
}

}  // namespace

extern const RowProducts row_products;
const RowProducts row_products = all_rows;

}  // namespace d5::onednn::own::D5_ISA
