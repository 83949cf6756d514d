// SPDX-License-Identifier: Apache-2.0
#include "d5/core/shape.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "d5/core/error.hpp"

namespace d5 {

Shape::Shape(std::vector<Index> sizes) : sizes_(std::move(sizes)) {
  constexpr Index most = Index{1} << 62;
  bool zero = false;
  for (Index size : sizes_) {
    if (size < 0) throw Error("[shape] negative size {} in {}", size, fmt::join(sizes_, "x"));
    zero = zero || size == 0;
    // A size of 0 counts as 1 here: strides and parts of the product leave it out and must not overflow either.
    if (__builtin_mul_overflow(elements_, std::max<Index>(size, 1), &elements_) || elements_ > most)
      throw Error("[shape] {} has more than 2^62 elements", fmt::join(sizes_, "x"));
  }
  if (zero) elements_ = 0;
}

Index Shape::elements(size_t first_axis, size_t last_axis) const {
  Index product = 1;
  for (size_t axis = first_axis; axis < last_axis; ++axis) product *= sizes_[axis];
  return product;
}

std::vector<Index> Shape::strides() const {
  std::vector<Index> strides(rank());
  Index step = 1;
  for (size_t axis = rank(); axis-- > 0;) {
    strides[axis] = step;
    step *= std::max<Index>(sizes_[axis], 1);
  }
  return strides;
}

std::string to_string(const Shape& shape) {
  return shape.rank() == 0 ? "scalar" : fmt::format("{}", fmt::join(shape.sizes(), "x"));
}

Shape parse_shape(std::string_view text) {
  if (text == "scalar") return {};
  std::vector<Index> sizes;
  for (const char *at = text.data(), *end = at + text.size();;) {
    Index size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 0 || (next != end && *next != 'x'))
      throw UsageError("[shape] '{}' is not a shape; write sizes with x between them, as in 2x3x4", text);
    sizes.push_back(size);
    if (next == end) return Shape(std::move(sizes));
    at = next + 1;
  }
}

size_t valid_axis(Index axis, size_t rank, std::string_view place) {
  const auto n = static_cast<Index>(rank);
  if (axis < -n || axis >= n)
    throw Error("{} axis {} is out of range; a tensor of rank {} has axes {} to {}", place, axis, n, -n, n - 1);
  return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

Shape broadcast(const Shape& a, const Shape& b, std::string_view place) {
  std::vector<Index> sizes(std::max(a.rank(), b.rank()));
  for (size_t i = 0; i < sizes.size(); ++i) {  // from the last axis
    const Index x = i < a.rank() ? a[a.rank() - 1 - i] : 1, y = i < b.rank() ? b[b.rank() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw Error("{} shapes {} and {} do not broadcast: sizes {} and {} differ and neither is 1", place, to_string(a),
                  to_string(b), x, y);
    sizes[sizes.size() - 1 - i] = x == 1 ? y : x;
  }
  return Shape(std::move(sizes));
}

std::vector<Index> broadcast_strides(const Shape& from, const Shape& to) {
  const auto own = from.strides();
  std::vector<Index> strides(to.rank(), 0);
  for (size_t i = 0; i < from.rank(); ++i) {
    const size_t axis = to.rank() - from.rank() + i;
    strides[axis] = from[i] == 1 && to[axis] != 1 ? 0 : own[i];
  }
  return strides;
}

}  // namespace d5
