// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/selection.hpp"

#include <algorithm>

#include "d5/operators/known.hpp"
#include "d5/operators/magnitude.hpp"

namespace d5 {
namespace {

bool choice_is_known(SpecSpan in) {
  return std::ranges::all_of(in.subspan(1), [](const TensorSpec& spec) { return !spec.present || spec.known; });
}

struct Counts {
  double distinct = 0, most = 0;
};

Counts count(std::vector<Index> steps) {
  std::erase(steps, Sources::none);
  std::ranges::sort(steps);
  Counts counts;
  for (size_t i = 0, first = 0; i < steps.size(); ++i) {
    if (i == 0 || steps[i] != steps[i - 1]) {
      ++counts.distinct;
      first = i;
    }
    counts.most = std::max(counts.most, static_cast<double>(i - first + 1));
  }
  return counts;
}

}  // namespace

void Sources::check_length(Index size) {
  constexpr Index longest = Index{1} << 28;
  if (size > longest) throw Error("an axis has {} elements; at most {} are supported here", size, longest);
}

void Sources::add_axis(Index size, Index stride) {
  check_length(size);
  std::vector<Index>& axis = steps.emplace_back(static_cast<size_t>(size));
  for (Index i = 0; i < size; ++i) axis[i] = i * stride;
}

Index Sources::elements() const {
  Index product = 1;
  for (const auto& axis : steps) product *= static_cast<Index>(axis.size());
  return product;
}

Index Sources::operator()(Index element) const {
  Index source = 0;
  for (size_t axis = steps.size(); axis-- > 0;) {
    const auto size = static_cast<Index>(steps[axis].size());
    const Index step = steps[axis][element % size];
    if (step == none) return none;
    source += step;
    element /= size;
  }
  return source;
}

double Sources::most_readers() const {
  double product = 1;
  for (const auto& axis : steps) product *= count(axis).most;
  return product;
}

double Sources::distinct() const {
  double product = 1;
  for (const auto& axis : steps) product *= count(axis).distinct;
  return product;
}

std::vector<TensorSpec> Selection::infer(SpecSpan in) const {
  const Shape shape = output_shape(in);
  return with_known(*this, in, {{in[0].dtype, shape}});
}

void Selection::forward(Context& c) const {
  const Sources from = sources(known_specs(c.inputs));
  with_element_type(c.output(0).dtype(), [&]<class T>() {
    const T fill = filling(c).present() ? filling(c).values<T>()[0] : T{};
    const auto x = c.input(0).values<T>(), y = c.output(0).values<T>();
    from.for_each([&](Index i, Index source) { y[i] = source == Sources::none ? fill : x[source]; });
  });
}

void Selection::backward(Context& c) const {
  if (!c.input_gradient(0).present()) return;
  const auto dy = c.output_gradient(0).values<double>(), dx = cleared(c.input_gradient(0));
  sources(known_specs(c.inputs)).for_each([&](Index i, Index source) {
    if (source != Sources::none) dx[source] += dy[i];
  });
}

bool Selection::forward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const {
  const Sources from = sources(known_specs(c.inputs));
  with_compute_type(c.input(0).dtype(), [&]<class T>() {
    const double fill = filling(c).present() ? static_cast<double>(filling(c).values<T>()[0]) : 0;
    const auto x = c.input(0).values<T>();
    for (size_t i = 0; i < at.size(); ++i) {
      const Index source = from(at[i]);
      values[i] = source == Sources::none ? fill : static_cast<double>(x[source]);
    }
  });
  return true;
}

// Compulsory: what is chosen is read once, the result written, the choice read. Backward writes all of dx.
Cost Selection::cost(SpecSpan in, Pass pass) const {
  const TensorSpec y{in[0].dtype, output_shape(in)};
  const double choice = input_bytes(in.subspan(1));
  if (pass == Pass::backward) return {static_cast<double>(y.elements()), in[0].bytes() + y.bytes() + choice};
  const double most = static_cast<double>(std::min(in[0].elements(), y.elements()));
  const double read = choice_is_known(in) ? sources(in).distinct() : most;
  return {0, read * bits(y.dtype) / 8 + y.bytes() + choice};
}

Rounding Selection::rounding(SpecSpan in, Pass pass, size_t) const {
  if (pass == Pass::forward) return {.terms = 0, .units = 0, .exact = true};
  const double readers =
      choice_is_known(in) ? sources(in).most_readers() : static_cast<double>(output_shape(in).elements());
  return {.terms = std::max(0.0, readers - 1), .units = 0, .exact = true};
}

const Tensor& Selection::filling(const Context&) const {
  static const Tensor absent;
  return absent;
}

}  // namespace d5
