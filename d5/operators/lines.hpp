// SPDX-License-Identifier: Apache-2.0
// The lines of tensors along one axis, all at once:
//   for (auto [x, y] : lines<double>(axis, c.input(0), c.output(0))) y[0] = x[0];
// The tensors have one shape. A line has size(), operator[] and iterators; its elements need not be neighbours in
// memory.
#pragma once

#include <array>
#include <iterator>
#include <tuple>

#include "d5/core/tensor.hpp"

namespace d5 {

template <class T>
class Line {
 public:
  class iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    using reference = T&;
    using pointer = T*;
    iterator() = default;
    iterator(const Line* line, size_t i) : line_(line), i_(i) {}
    T& operator*() const { return (*line_)[i_]; }
    iterator& operator++() { return ++i_, *this; }
    iterator operator++(int) { return {line_, i_++}; }
    bool operator==(const iterator&) const = default;

   private:
    const Line* line_ = nullptr;
    size_t i_ = 0;
  };

  Line(T* data, size_t size, Index stride) : data_(data), size_(size), stride_(stride) {}
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return data_[static_cast<Index>(i) * stride_]; }
  iterator begin() const { return {this, 0}; }
  iterator end() const { return {this, size_}; }

 private:
  T* data_;
  size_t size_;
  Index stride_;
};

template <class T, size_t count>
class Lines {
 public:
  class iterator {
   public:
    iterator(const Lines* lines, Index i) : lines_(lines), i_(i) {}
    auto operator*() const { return lines_->at(i_, std::make_index_sequence<count>()); }
    iterator& operator++() { return ++i_, *this; }
    bool operator==(const iterator&) const = default;

   private:
    const Lines* lines_;
    Index i_;
  };

  Lines(size_t axis, const std::array<const Tensor*, count>& tensors) {
    const Shape& shape = tensors[0]->shape();
    for (size_t i = 0; i < count; ++i) {
      if (tensors[i]->shape() != shape)
        throw Error("[lines] tensors of {} and {} have no common lines", to_string(shape),
                    to_string(tensors[i]->shape()));
      data_[i] = tensors[i]->template values<T>().data();
    }
    size_ = shape[axis];
    inner_ = shape.elements(axis + 1, shape.rank());
    count_ = size_ == 0 ? 0 : shape.elements() / size_;
  }
  iterator begin() const { return {this, 0}; }
  iterator end() const { return {this, count_}; }

 private:
  template <size_t... k>
  auto at(Index i, std::index_sequence<k...>) const {
    const Index start = i / inner_ * size_ * inner_ + i % inner_;
    return std::make_tuple(Line<T>(data_[k] + start, static_cast<size_t>(size_), inner_)...);
  }
  std::array<T*, count> data_{};
  Index size_ = 0, inner_ = 1, count_ = 0;
};

template <class T, class... Tensors>
auto lines(Index axis, const Tensors&... tensors) {
  const std::array<const Tensor*, sizeof...(Tensors)> all{&tensors...};
  return Lines<T, sizeof...(Tensors)>(valid_axis(axis, all[0]->shape().rank(), "[lines]"), all);
}

}  // namespace d5
