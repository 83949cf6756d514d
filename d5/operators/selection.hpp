// SPDX-License-Identifier: Apache-2.0
// Operators that move data: every element of the result is one of the input's, or a constant.
//   y[i] = x[source(i)]      dx[j] = sum of dy[i] over all i with source(i) = j
#pragma once

#include <string_view>
#include <vector>

#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {

// The sources of a row-major result, chosen axis by axis: element (i, j, ...) comes from element steps[0][i] +
// steps[1][j] + ... of the other tensor, and from nowhere where one of these is `none`. Steps are not negative.
// Axes may be merged: one axis with a step for every element describes any choice.
struct Sources {
  static constexpr Index none = -1;

  std::vector<std::vector<Index>> steps;

  void add_axis(Index size, Index stride);  // steps 0, stride, 2 stride, ...
  // Every place of an axis is listed: Error where that is more than 2^28, before there is a list.
  static void check_length(Index size);

  Index elements() const;
  Index operator()(Index element) const;
  // f(element, source) for all elements in order.
  template <class F>
  void for_each(F&& f) const;

  // Axes choose independently of each other, so these are products over the axes.
  double most_readers() const;  // the most elements that come from one source
  double distinct() const;      // how many sources are read at all
};

class Selection : public Operator {
 public:
  std::vector<TensorSpec> infer(SpecSpan in) const final;
  void forward(Context&) const override;
  void backward(Context&) const override;
  bool forward_at(const Context&, size_t output, std::span<const Index> at, std::span<double> values) const override;
  Cost cost(SpecSpan in, Pass) const override;
  Rounding rounding(SpecSpan in, Pass, size_t index) const override;

  // Every input is known but the first, whose elements are chosen. Kernels ask for it, too.
  virtual Sources sources(SpecSpan in) const = 0;

 protected:
  // Error on inputs that do not fit together.
  virtual Shape output_shape(SpecSpan in) const = 0;
  // What stands where nothing is chosen; absent: zero.
  virtual const Tensor& filling(const Context&) const;
};

// ---- templates
template <class F>
void Sources::for_each(F&& f) const {
  if (steps.empty()) return f(Index{0}, Index{0});
  if (elements() == 0) return;
  const std::vector<Index>& inner = steps.back();
  std::vector<size_t> at(steps.size() - 1, 0);
  for (Index element = 0;;) {
    Index start = 0;
    for (size_t axis = 0; axis < at.size(); ++axis)
      start = start == none || steps[axis][at[axis]] == none ? none : start + steps[axis][at[axis]];
    for (const Index step : inner) f(element++, start == none || step == none ? none : start + step);
    size_t axis = at.size();
    while (axis > 0 && ++at[axis - 1] == steps[axis - 1].size()) at[--axis] = 0;
    if (axis == 0) return;
  }
}

}  // namespace d5
