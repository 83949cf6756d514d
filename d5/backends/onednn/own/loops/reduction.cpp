// SPDX-License-Identifier: Apache-2.0
// Reductions that carry two numbers, and the functions before and behind a reduction (as d5/operators/reduce.cpp
// defines them). Their names are no operators' names but "before", "behind" and "gradient" of them.
#include "d5/backends/onednn/own/loops/joined.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

#define D5_TILE(Name, ARRAYS, VALUE)                                                                   \
  void Name(const Values* in, const Place& out, int64_t n, [[maybe_unused]] const float* parameters) { \
    [[maybe_unused]] const Parameters p(parameters);                                                   \
    each_of<ARRAYS>(in, out, n, [&](auto& x, int64_t i) {                                              \
      [[maybe_unused]] const Line &a = x[0], &b = x[ARRAYS > 1], &c = x[ARRAYS > 2 ? 2 : 0],           \
                                  &d = x[ARRAYS > 3 ? 3 : 0];                                          \
      return VALUE;                                                                                    \
    });                                                                                                \
  }

D5_TILE(linear, 1, p.a* a[i] + p.b)
D5_TILE(product, 2, a[i] * b[i])
D5_TILE(top_and_log, 2, a[i] + log_of(b[i]))            // log_sum_exp
D5_TILE(product_or_zero, 2, b[i] > 0.0f ? 0.0f : a[i])  // product_zeros

// x, y, dy and what was kept: to dx.
D5_TILE(gradient_of_max, 4, a[i] == b[i] ? c[i] * d[i] : 0.0f)               // x, y, dy, 1 / ties
D5_TILE(gradient_of_variadic_max, 3, a[i] == b[i] ? c[i] : 0.0f)             // x, y, dy
D5_TILE(gradient_of_l1, 2, a[i] > 0.0f ? b[i] : a[i] < 0.0f ? -b[i] : 0.0f)  // x, dy
D5_TILE(gradient_of_l2, 3, b[i] == 0.0f ? 0.0f : c[i] * (a[i] / b[i]))       // x, y, dy
D5_TILE(gradient_of_square, 2, 2.0f * a[i] * b[i])                           // x, dy
D5_TILE(gradient_of_log_sum_exp, 3, c[i] * exp_of(a[i] - b[i]))              // x, y, dy
D5_TILE(gradient_of_product, 4,                                              // x, dy, product, zeros
        d[i] == 0.0f                        ? b[i] * (c[i] / a[i])
        : ((d[i] == 1.0f) & (a[i] == 0.0f)) ? b[i] * c[i]
                                            : 0.0f)

// Softmax of columns: x, top, sum (its logarithm); y, dy, sum.
D5_TILE(log_softmax, 3, (a[i] - b[i]) - c[i])
D5_TILE(minus_softmax, 4, -(exp_of(a[i] - b[i]) / c[i]) * d[i])
D5_TILE(gradient_of_softmax, 3, a[i] * (b[i] - c[i]))
D5_TILE(gradient_of_log_softmax, 3, b[i] - exp_of(a[i]) * c[i])

}  // namespace

// The sum is relative to the largest element, where that is infinite to 0: inf - inf does not come in. What is no
// number reaches the sum. Eight rows at once share the change of scale.
template <int rows>
D5_INLINE void log_sum_exp_rows(float* top, float* sum, const float* x, int64_t stride, int64_t n) {
  walk_line(
      n, [=](auto at, int) __attribute__((always_inline)) {
        const Vector old = at(top);
        Vector row[rows], now = old;
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
          row[r] = at(x + r * stride);
          now = Highest::join(now, row[r]);
        }
        const Vector base = absolute(now) == __builtin_inff() ? 0.0f : now;
        const auto total = [&](auto exponential) __attribute__((always_inline)) {
          Vector t = at(sum) * exponential(old - base);
#pragma GCC unroll 8
          for (int r = 0; r < rows; ++r) t += exponential(row[r] - base);
          return t;
        };
        const bool finite = all_below(now, __builtin_inff());
        at.put(sum, finite ? total([](Vector d) __attribute__((always_inline)) { return exp_below(d); })
                           : total([](Vector d) __attribute__((always_inline)) { return exp_of(d); }));
        at.put(top, now);
      });
}
void log_sum_exp_merge(float* top, float* sum, const float* x, int64_t stride, int64_t rows, int64_t n) {
  int64_t row = 0;
  for (; row + 8 <= rows; row += 8) log_sum_exp_rows<8>(top, sum, x + row * stride, stride, n);
  for (; row < rows; ++row) log_sum_exp_rows<1>(top, sum, x + row * stride, stride, n);
}
// In pieces that stay in the first cache between the two passes.
void log_sum_exp_pair(const float* x, int64_t n, float pair[2]) {
  constexpr int64_t most = 4 * tile_elements;
  float top = -__builtin_inff(), sum = 0.0f;
  for (int64_t at = 0; at < n; at += most) {
    const int64_t count = n - at < most ? n - at : most;
    const float *piece = x + at, highest = reduce<Highest>(piece, count), old = top;
    if (highest > top) top = highest;
    const float base = absolute(spread(top))[0] == __builtin_inff() ? 0.0f : top;
    if (old != top) sum *= exp_of(spread(old - base))[0];
    const bool finite = top < __builtin_inff();
    sum += finite ? joined_line<Plus>(
                        count,
                        [=](auto place) __attribute__((always_inline)) {
                          place.prefetch(piece + most);
                          return exp_below(place(piece) - base);
                        })
                  : joined_line<Plus>(
                        count, [=](auto place) __attribute__((always_inline)) { return exp_of(place(piece) - base); });
  }
  pair[0] = top;
  pair[1] = sum;
}

template <class Join>
D5_INLINE void ties_merge(float* best, float* ties, const float* x, int64_t stride, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row, x += stride)
    walk_line(
        n, [=](auto at, int) __attribute__((always_inline)) {
          const Vector old = at(best), a = at(x), now = Join::join(old, a);
          const Vector kept = now == old ? at(ties) : Vector{};
          at.put(ties, kept + (a == now ? Vector{} + 1.0f : Vector{}));
          at.put(best, now);
        });
}
template <class Join>
D5_INLINE void ties_pair(const float* x, int64_t n, float pair[2]) {
  const float best = reduce<Join>(x, n);
  pair[0] = best;
  pair[1] = joined_line<Plus>(n, [x, best](auto at) { return at(x) == best ? Vector{} + 1.0f : Vector{}; });
}
void max_ties_merge(float* top, float* ties, const float* x, int64_t stride, int64_t rows, int64_t n) {
  ties_merge<Largest>(top, ties, x, stride, rows, n);
}
void min_ties_merge(float* low, float* ties, const float* x, int64_t stride, int64_t rows, int64_t n) {
  ties_merge<Smallest>(low, ties, x, stride, rows, n);
}
void max_ties_pair(const float* x, int64_t n, float pair[2]) { ties_pair<Largest>(x, n, pair); }
void min_ties_pair(const float* x, int64_t n, float pair[2]) { ties_pair<Smallest>(x, n, pair); }

void product_zeros_merge(float* product, float* zeros, const float* x, int64_t stride, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row, x += stride)
    walk_line(
        n, [=](auto at, int) __attribute__((always_inline)) {
          const Vector a = at(x);
          at.put(product, at(product) * (a == 0.0f ? 1.0f : a));
          at.put(zeros, at(zeros) + (a == 0.0f ? Vector{} + 1.0f : Vector{}));
        });
}
void product_zeros_pair(const float* x, int64_t n, float pair[2]) {
  pair[0] = joined_line<Times>(n, [x](auto at) { return at(x) == 0.0f ? Vector{} + 1.0f : at(x); });
  pair[1] = joined_line<Plus>(n, [x](auto at) { return at(x) == 0.0f ? Vector{} + 1.0f : Vector{}; });
}

const TileFunctions reduction_functions[] = {
    {"linear", 1, linear, {}},
    {"product", 2, product, {}},
    {"top and log", 2, top_and_log, {}},
    {"product or zero", 2, product_or_zero, {}},
    {"gradient of max", 4, gradient_of_max, {}},
    {"gradient of variadic max", 3, gradient_of_variadic_max, {}},
    {"gradient of l1", 2, gradient_of_l1, {}},
    {"gradient of l2", 3, gradient_of_l2, {}},
    {"gradient of square", 2, gradient_of_square, {}},
    {"gradient of log sum exp", 3, gradient_of_log_sum_exp, {}},
    {"gradient of product", 4, gradient_of_product, {}},
    {"log softmax", 3, log_softmax, {}},
    {"minus softmax", 4, minus_softmax, {}},
    {"gradient of softmax", 3, gradient_of_softmax, {}},
    {"gradient of log softmax", 3, gradient_of_log_softmax, {}},
};
const size_t reduction_count = sizeof reduction_functions / sizeof reduction_functions[0];

}  // namespace d5::onednn::own::D5_ISA
