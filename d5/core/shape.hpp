// SPDX-License-Identifier: Apache-2.0
// Sizes of a tensor, row-major. Every product is checked: an impossible shape is an error, never an overflow.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace d5 {

using Index = int64_t;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Index> sizes) : Shape(std::vector<Index>(sizes)) {}
  explicit Shape(std::vector<Index> sizes);  // Error on a negative size or more than 2^62 elements, sizes of 0 left out

  size_t rank() const { return sizes_.size(); }
  Index operator[](size_t axis) const { return sizes_[axis]; }
  Index back() const { return sizes_.back(); }
  auto begin() const { return sizes_.begin(); }
  auto end() const { return sizes_.end(); }
  const std::vector<Index>& sizes() const { return sizes_; }
  Index elements() const { return elements_; }
  Index elements(size_t first_axis, size_t last_axis) const;  // product over [first, last)
  std::vector<Index> strides() const;                         // in elements, row-major

  bool operator==(const Shape& other) const { return sizes_ == other.sizes_; }

 private:
  std::vector<Index> sizes_;
  Index elements_ = 1;
};

std::string to_string(const Shape&);       // "2x3x4"; "scalar"
Shape parse_shape(std::string_view text);  // the inverse
size_t valid_axis(Index axis, size_t rank,
                  std::string_view place);  // -1 counts from the end; Error names the legal range
Shape broadcast(const Shape& a, const Shape& b, std::string_view place);  // numpy's rule

// Strides with which `from` is read along `to`: 0 where it is broadcast. Needs broadcast(from, to) == to.
std::vector<Index> broadcast_strides(const Shape& from, const Shape& to);

}  // namespace d5
