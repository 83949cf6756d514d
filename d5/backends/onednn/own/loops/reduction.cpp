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
      [[maybe_unused]] const float *a = x[0], *b = x[ARRAYS > 1], *c = x[ARRAYS > 2 ? 2 : 0],          \
                                   *d = x[ARRAYS > 3 ? 3 : 0];                                         \
      return VALUE;                                                                                    \
    });                                                                                                \
  }

D5_TILE(linear, 1, p.a* a[i] + p.b)
D5_TILE(square, 1, a[i] * a[i])
D5_TILE(product, 2, a[i] * b[i])
D5_TILE(masked, 2, b[i] != 0.0f ? a[i] * p.a : 0.0f)
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
        d[i] == 0.0f                   ? b[i] * (c[i] / a[i])
        : d[i] == 1.0f && a[i] == 0.0f ? b[i] * c[i]
                                       : 0.0f)

// Softmax of columns: x, top, sum (its logarithm); y, dy, sum.
D5_TILE(softmax, 3, exp_of(a[i] - b[i]) / c[i])
D5_TILE(log_softmax, 3, (a[i] - b[i]) - c[i])
D5_TILE(minus_softmax, 4, -(exp_of(a[i] - b[i]) / c[i]) * d[i])
D5_TILE(gradient_of_softmax, 3, a[i] * (b[i] - c[i]))
D5_TILE(gradient_of_log_softmax, 3, b[i] - exp_of(a[i]) * c[i])

}  // namespace

// A sum of 0 stands for "nothing yet", so that inf - inf does not come in. Four rows at once share the change of scale.
D5_INLINE float share_of(float x, float top) { return x == top ? 1.0f : exp_of(x - top); }
D5_INLINE float grown(float sum, float old, float top, float more) {
  const float before = sum == 0.0f || old == top ? sum : sum * exp_of(old - top);
  return top == -__builtin_inff() ? 0.0f : before + more;
}
void log_sum_exp_merge(float* top, float* sum, const float* x, int64_t stride, int64_t rows, int64_t n) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const float *a = x + row * stride, *b = a + stride, *c = b + stride, *d = c + stride;
    D5_EACH(n) {
      const float old = top[i], most = Largest::join(Largest::join(a[i], b[i]), Largest::join(c[i], d[i]));
      const float now = Largest::join(old, most);
      const float more = (share_of(a[i], now) + share_of(b[i], now)) + (share_of(c[i], now) + share_of(d[i], now));
      sum[i] = grown(sum[i], old, now, more);
      top[i] = now;
    }
  }
  for (; row < rows; ++row) {
    const float* a = x + row * stride;
    D5_EACH(n) {
      const float old = top[i], now = Largest::join(old, a[i]);
      sum[i] = grown(sum[i], old, now, share_of(a[i], now));
      top[i] = now;
    }
  }
}
void log_sum_exp_pair(const float* x, int64_t n, float pair[2]) {
  const float top = reduce<Largest>(x, n);
  const bool finite = top - top == 0.0f;
  pair[0] = top;
  pair[1] = finite ? joined<Plus>(n, [x, top](int64_t i) { return exp_of(x[i] - top); })
                   : (top == -__builtin_inff() ? 0.0f : 1.0f);
}

template <class Join>
D5_INLINE void ties_merge(float* best, float* ties, const float* x, int64_t stride, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row, x += stride) {
    D5_EACH(n) {
      const float old = best[i], now = Join::join(old, x[i]);
      const float kept = now == old ? ties[i] : 0.0f;
      ties[i] = kept + (x[i] == now ? 1.0f : 0.0f);
      best[i] = now;
    }
  }
}
template <class Join>
D5_INLINE void ties_pair(const float* x, int64_t n, float pair[2]) {
  const float best = reduce<Join>(x, n);
  pair[0] = best;
  pair[1] = joined<Plus>(n, [x, best](int64_t i) { return x[i] == best ? 1.0f : 0.0f; });
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
  for (int64_t row = 0; row < rows; ++row, x += stride) {
    D5_EACH(n) {
      product[i] *= x[i] == 0.0f ? 1.0f : x[i];
      zeros[i] += x[i] == 0.0f ? 1.0f : 0.0f;
    }
  }
}
void product_zeros_pair(const float* x, int64_t n, float pair[2]) {
  pair[0] = joined<Times>(n, [x](int64_t i) { return x[i] == 0.0f ? 1.0f : x[i]; });
  pair[1] = joined<Plus>(n, [x](int64_t i) { return x[i] == 0.0f ? 1.0f : 0.0f; });
}

const TileFunctions reduction_functions[] = {
    {"linear", 1, linear, {}},
    {"square", 1, square, {}},
    {"product", 2, product, {}},
    {"masked", 2, masked, {}},
    {"top and log", 2, top_and_log, {}},
    {"product or zero", 2, product_or_zero, {}},
    {"gradient of max", 4, gradient_of_max, {}},
    {"gradient of variadic max", 3, gradient_of_variadic_max, {}},
    {"gradient of l1", 2, gradient_of_l1, {}},
    {"gradient of l2", 3, gradient_of_l2, {}},
    {"gradient of square", 2, gradient_of_square, {}},
    {"gradient of log sum exp", 3, gradient_of_log_sum_exp, {}},
    {"gradient of product", 4, gradient_of_product, {}},
    {"softmax", 3, softmax, {}},
    {"log softmax", 3, log_softmax, {}},
    {"minus softmax", 4, minus_softmax, {}},
    {"gradient of softmax", 3, gradient_of_softmax, {}},
    {"gradient of log softmax", 3, gradient_of_log_softmax, {}},
};
const size_t reduction_count = sizeof reduction_functions / sizeof reduction_functions[0];

}  // namespace d5::onednn::own::D5_ISA
