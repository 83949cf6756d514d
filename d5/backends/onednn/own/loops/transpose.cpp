// SPDX-License-Identifier: Apache-2.0
// Transposition of a matrix in blocks of 16 x 16 that stay in registers: in stage d rows i and i + d exchange the
// elements whose column has bit d. Blocks go along the rows of the source, a few of which are read side by side and
// ahead: memory is then read in long runs, and written past the caches a line at a time.
#include <utility>

#include "d5/backends/onednn/own/loops/functions.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

constexpr int side = 16;
template <class T>
using Row [[gnu::vector_size(side * sizeof(T))]] = T;

template <int d, class T, size_t... j>
D5_INLINE void exchange(Row<T>& a, Row<T>& b, std::index_sequence<j...>) {
  const Row<T> low = __builtin_shufflevector(a, b, ((j & d) ? side + j - d : j)...);
  b = __builtin_shufflevector(a, b, ((j & d) ? side + j : j + d)...);
  a = low;
}
template <int d, class T>
D5_INLINE void stage(Row<T>* rows) {
  for (int i = 0; i < side; ++i)
    if (!(i & d)) exchange<d, T>(rows[i], rows[i + d], std::make_index_sequence<side>());
}

template <bool streamed, class T>
D5_INLINE void transpose_block(T* to, int64_t to_stride, const T* from, int64_t from_stride) {
  Row<T> rows[side];
  for (int i = 0; i < side; ++i) __builtin_memcpy(&rows[i], from + i * from_stride, sizeof rows[i]);
  stage<8, T>(rows);
  stage<4, T>(rows);
  stage<2, T>(rows);
  stage<1, T>(rows);
  for (int i = 0; i < side; ++i) {
    if (streamed)
      stream_vectors(reinterpret_cast<char*>(to + i * to_stride), reinterpret_cast<const char*>(&rows[i]),
                     sizeof rows[i]);
    else
      __builtin_memcpy(to + i * to_stride, &rows[i], sizeof rows[i]);
  }
}

template <bool streamed, class T>
void transpose(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t rows, int64_t columns) {
  constexpr int64_t together = 64, ahead = 256 / sizeof(T);  // rows of the source, elements of one
  for (int64_t first = 0; first < columns; first += together)
    for (int64_t r = 0; r < rows; r += side)
      for (int64_t c = first; c < columns && c < first + together; c += side) {
        if (r + side <= rows && c + side <= columns) {
          if (streamed)
            for (int k = 0; k < side; ++k) __builtin_prefetch(from + (c + k) * from_stride + r + ahead, 0, 2);
          transpose_block<streamed>(to + r * to_stride + c, to_stride, from + c * from_stride + r, from_stride);
          continue;
        }
        for (int64_t i = r; i < rows && i < r + side; ++i)
          for (int64_t j = c; j < columns && j < c + side; ++j) to[i * to_stride + j] = from[j * from_stride + i];
      }
}

}  // namespace

void transpose_2(uint16_t* to, int64_t to_stride, const uint16_t* from, int64_t from_stride, int64_t rows,
                 int64_t columns) {
  transpose<false>(to, to_stride, from, from_stride, rows, columns);
}
void transpose_4(uint32_t* to, int64_t to_stride, const uint32_t* from, int64_t from_stride, int64_t rows,
                 int64_t columns, bool streamed) {
  const bool whole_lines = reinterpret_cast<uintptr_t>(to) % 64 == 0 && to_stride % side == 0;
  (streamed && whole_lines ? transpose<true, uint32_t> : transpose<false, uint32_t>)(to, to_stride, from, from_stride,
                                                                                     rows, columns);
}

}  // namespace d5::onednn::own::D5_ISA
