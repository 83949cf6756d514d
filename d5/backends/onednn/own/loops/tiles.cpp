// SPDX-License-Identifier: Apache-2.0
// Reductions and lines, and the table of all loops of this instruction set.
#include "d5/backends/onednn/own/loops/joined.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

void fill(float* y, float value, int64_t n) { D5_EACH(n) y[i] = value; }

// ---- reductions
template <class Join>
void merge_rows(float* sums, const float* x, int64_t stride, int64_t rows, int64_t n) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {  // more streams would meet in the same sets of the first cache
    const float *a = x + row * stride, *b = a + stride, *c = b + stride, *d = c + stride;
    walk_line(
        n, [=](auto at, int) __attribute__((always_inline)) {
          const Vector low = Join::join(Join::taken(at(a)), Join::taken(at(b)));
          const Vector high = Join::join(Join::taken(at(c)), Join::taken(at(d)));
          at.put(sums, Join::join(at(sums), Join::join(low, high)));
        });
  }
  for (; row < rows; ++row) {
    const float* a = x + row * stride;
    walk_line(
        n, [=](auto at, int)
               __attribute__((always_inline)) { at.put(sums, Join::join(at(sums), Join::taken(at(a)))); });
  }
}
template <class Join>
void merge(float* sums, const float* x, int64_t n) {
  walk_line(
      n, [=](auto at, int) __attribute__((always_inline)) { at.put(sums, Join::join(at(sums), at(x))); });
}
float dot(const float* a, const float* b, int64_t n) {
  return joined_line<Plus>(n, [a, b](auto at) { return at(a) * at(b); });
}

// ---- lines
template <bool stores, bool writes>
float exponentials_of(const float* x, float top, float* y, int64_t n, const float* ahead, const LineBefore& before) {
  const LineBefore b = before;  // a copy: no store can change it
  Totals<Plus> sum;
  walk_line(
      n,
      [=](auto at) __attribute__((always_inline)) {
        at.prefetch(ahead);
        return stores ? exp_of(at(x) - top) : exp_below(at(x) - top);
      },
      [&](auto at, int r, Vector e) __attribute__((always_inline)) {
        sum.add(r, at, e);
        if (stores) at.put(y, e);
        if (writes) at.stream(b.y, (at(b.x) - b.shift) * b.factor + b.term);
      });
  return sum.joined();
}
float exponentials(const float* x, float top, float* y, int64_t n, const float* ahead, const LineBefore& before) {
  const auto loop = y ? (before.y ? exponentials_of<true, true> : exponentials_of<true, false>)
                      : (before.y ? exponentials_of<false, true> : exponentials_of<false, false>);
  return loop(x, top, y, n, ahead, before);
}
template <bool replaces, bool writes>
void column_exponentials_of(float* x, const float* top, float* sum, int64_t n, const float* ahead,
                            const ColumnsBefore& before) {
  const ColumnsBefore b = before;
  walk_line(
      n,
      [=](auto at) __attribute__((always_inline)) {
        at.prefetch(ahead);
        const Vector d = at(x) - at(top);
        return replaces ? exp_of(d) : exp_below(d);
      },
      [=](auto at, int, Vector e) __attribute__((always_inline)) {
        at.put(sum, at(sum) + e);
        if (replaces) at.put(x, e);
        if (writes) at.stream(b.y, replaces ? at(b.x) * at(b.factor) : (at(b.x) - at(b.top)) - at(b.term));
      });
}
void column_exponentials(float* x, const float* top, float* sum, bool replaces, int64_t n, const float* ahead,
                         const ColumnsBefore& before) {
  const auto loop = replaces ? (before.y ? column_exponentials_of<true, true> : column_exponentials_of<true, false>)
                             : (before.y ? column_exponentials_of<false, true> : column_exponentials_of<false, false>);
  loop(x, top, sum, n, ahead, before);
}
void scale(const Place& y, const float* x, float factor, float term, int64_t n) {
  each_at(y, n, [=](auto at) { return factor * at(x) + term; });
}
void softmax_gradient(const Place& dx, const float* y, const float* dy, float product, int64_t n) {
  each_at(dx, n, [=](auto at) { return at(y) * (at(dy) - product); });
}
void log_softmax_gradient(const Place& dx, const float* y, const float* dy, float sum, int64_t n) {
  each({{y}, {dy}}, dx, n, [=](auto& in, int64_t i) { return in[1][i] - exp_of(in[0][i]) * sum; });
}

#define D5_QUOTE_(x) #x
#define D5_QUOTE(x) D5_QUOTE_(x)

}  // namespace

extern const ChannelLoops channel_table;
extern const Loops table;
const Loops table = {
    .isa = D5_QUOTE(D5_ISA),
    .channels = &channel_table,
    .functions = {{unary_functions, unary_count},
                  {activation_functions, activation_count},
                  {binary_functions, binary_count},
                  {reduction_functions, reduction_count}},
    .convert = convert,
    .fill = fill,
    .stream = stream,
    .fence = fence,
    .reduce = {reduce<Plus>, reduce<Times>, reduce<Largest>, reduce<Smallest>, reduce<PlusMagnitude>,
               reduce<PlusSquare>},
    .merge = {merge<Plus>, merge<Times>, merge<Largest>, merge<Smallest>, merge<Plus>, merge<Plus>},
    .merge_rows = {merge_rows<Plus>, merge_rows<Times>, merge_rows<Largest>, merge_rows<Smallest>,
                   merge_rows<PlusMagnitude>, merge_rows<PlusSquare>},
    .merge_pairs = {log_sum_exp_merge, max_ties_merge, min_ties_merge, product_zeros_merge},
    .reduce_pair = {log_sum_exp_pair, max_ties_pair, min_ties_pair, product_zeros_pair},
    .dot = dot,
    .exponentials = exponentials,
    .column_exponentials = column_exponentials,
    .scale = scale,
    .moments = moments,
    .moments_in_turn = moments_in_turn,
    .normalize = normalize,
    .normalize_shared = normalize_shared,
    .normalize_sums = normalize_sums,
    .normalize_gradient = normalize_gradient,
    .normalize_gradient_shared = normalize_gradient_shared,
    .normalize_gradient_in_turn = normalize_gradient_in_turn,
    .softmax_gradient = softmax_gradient,
    .log_softmax_gradient = log_softmax_gradient,
    .transpose_2 = transpose_2,
    .transpose_4 = transpose_4,
    .drop = drop,
    .keep = keep,
};

}  // namespace d5::onednn::own::D5_ISA
