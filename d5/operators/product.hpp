// SPDX-License-Identifier: Apache-2.0
// The matrix product behind Gemm and MatMul. Each element is summed in the order of k, whatever the number of threads.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "d5/core/parallel.hpp"
#include "d5/core/shape.hpp"

namespace d5 {

// sum + a b; integers wrap around as two's complement does, instead of overflowing.
template <class T>
T multiply_add(T sum, T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return sum + a * b;
}

template <class T>
struct Matrix {
  const T* data;
  Index row_stride, column_stride;

  T at(Index i, Index j) const { return data[i * row_stride + j * column_stride]; }
  Matrix transposed() const { return {data, column_stride, row_stride}; }
};

// A row-major matrix of `columns` columns as stored, read transposed where asked.
template <class T>
Matrix<T> matrix(const T* data, Index columns, bool transpose) {
  const Matrix<T> plain{data, columns, 1};
  return transpose ? plain.transposed() : plain;
}

// Element (i, j) of a b.
template <class T>
T product_at(const Matrix<T>& a, const Matrix<T>& b, Index i, Index j, Index k) {
  T sum{};
  for (Index l = 0; l < k; ++l) sum = multiply_add(sum, a.at(i, l), b.at(l, j));
  return sum;
}

// Some elements of a b, by blocks of k: what neighbours in memory share is read once while it is in the cache.
struct Place {
  Index row, column;
};
template <class T>
std::vector<T> products_at(const Matrix<T>& a, const Matrix<T>& b, std::span<const Place> places, Index k) {
  constexpr Index block = 64;
  std::vector<T> sums(places.size());
  for (Index start = 0; start < k; start += block)
    for (size_t i = 0; i < places.size(); ++i) {
      T sum = sums[i];
      for (Index l = start; l < std::min(k, start + block); ++l)
        sum = multiply_add(sum, a.at(places[i].row, l), b.at(l, places[i].column));
      sums[i] = sum;
    }
  return sums;
}

// y += a b, with y row-major, m x n.
template <class T>
void add_product(const Matrix<T>& a, Matrix<T> b, Index m, Index n, Index k, T* y) {
  std::vector<T> copy;  // the inner loop runs along rows of b, so they must be contiguous
  if constexpr (!std::is_same_v<T, bool>) {
    if (b.column_stride != 1 && n > 1) {
      copy.resize(static_cast<size_t>(k * n));
      for (Index j = 0; j < n; ++j)
        for (Index l = 0; l < k; ++l) copy[l * n + j] = b.at(l, j);
      b = {copy.data(), n, 1};
    }
  }
  constexpr Index block = 64;  // rows of b that stay in the cache while rows of y pass
  const auto add = [&](Index first, Index last, Index left, Index right) {
    for (Index start = 0; start < k; start += block)
      for (Index i = first; i < last; ++i) {
        T* sums = y + i * n;
        Index l = start;
        const Index end = std::min(k, start + block);
        for (; l + 4 <= end; l += 4) {  // four terms, one after the other, while a sum is in a register
          const T f[] = {a.at(i, l), a.at(i, l + 1), a.at(i, l + 2), a.at(i, l + 3)};
          const T* r = b.data + l * b.row_stride;
          const T *r1 = r + b.row_stride, *r2 = r1 + b.row_stride, *r3 = r2 + b.row_stride;
          for (Index j = left; j < right; ++j)
            sums[j] = multiply_add(
                multiply_add(multiply_add(multiply_add(sums[j], f[0], r[j]), f[1], r1[j]), f[2], r2[j]), f[3], r3[j]);
        }
        for (; l < end; ++l) {
          const T factor = a.at(i, l);
          const T* row = b.data + l * b.row_stride;
          for (Index j = left; j < right; ++j) sums[j] = multiply_add(sums[j], factor, row[j]);
        }
      }
  };
  constexpr Index work = 1 << 20;  // products in one range: about a millisecond
  const Index few_rows = 4 * threads();
  if (m >= few_rows)
    parallel_for(m, std::max<Index>(1, work / std::max<Index>(1, n * k)),
                 [&](Index first, Index last) { add(first, last, 0, n); });
  else  // then threads share out the columns, and each reads b once
    parallel_for(n, std::max<Index>(64, work / std::max<Index>(1, m * k)),
                 [&](Index left, Index right) { add(0, m, left, right); });
}

}  // namespace d5
