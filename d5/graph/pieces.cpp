// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/pieces.hpp"

namespace d5 {
namespace {

// Elements [first, first + count) of each of `rows` rows, between tensors of one type.
void copy_blocks(const Tensor& from, Index from_row, Index from_first, const Tensor& to, Index to_row, Index to_first,
                 Index rows, Index count) {
  if (from.dtype() == DType::string) {
    const auto source = from.values<std::string>(), target = to.values<std::string>();
    for (Index row = 0; row < rows; ++row)
      for (Index i = 0; i < count; ++i) target[row * to_row + to_first + i] = source[row * from_row + from_first + i];
    return;
  }
  if (bits(from.dtype()) % 8 != 0)
    throw Error("[graph] tensors of {} cannot be cut: several elements share a byte", name(from.dtype()));
  const Index width = bits(from.dtype()) / 8;
  for (Index row = 0; row < rows; ++row)
    std::memcpy(static_cast<char*>(to.data()) + (row * to_row + to_first) * width,
                static_cast<const char*>(from.data()) + (row * from_row + from_first) * width,
                static_cast<size_t>(count * width));
}

Shape with_axis(const Shape& shape, size_t axis, Index size) {
  auto sizes = shape.sizes();
  sizes[axis] = size;
  return Shape(std::move(sizes));
}

Shape with_new_axis(const Shape& shape, size_t axis) {
  auto sizes = shape.sizes();
  sizes.insert(sizes.begin() + static_cast<long>(axis), 1);
  return Shape(std::move(sizes));
}

}  // namespace

Tensor take_range(const Tensor& tensor, size_t axis, Index first, Index count) {
  const Shape& shape = tensor.shape();
  if (axis >= shape.rank() || first < 0 || count < 0 || first > shape[axis] || count > shape[axis] - first)
    throw Error("[graph] {} from {} on axis {} is not in {}", count, first, axis, to_string(shape));
  Tensor part(tensor.dtype(), with_axis(shape, axis, count));
  const Index inner = shape.elements(axis + 1, shape.rank());
  copy_blocks(tensor, shape[axis] * inner, first * inner, part, count * inner, 0, shape.elements(0, axis),
              count * inner);
  return part;
}

Tensor take_index(const Tensor& tensor, size_t axis, Index index) {
  const Tensor part = take_range(tensor, axis, index, 1);
  auto sizes = part.shape().sizes();
  sizes.erase(sizes.begin() + static_cast<long>(axis));
  return part.reshaped(Shape(std::move(sizes)));
}

Tensor concatenate(const std::vector<Tensor>& parts, size_t axis) {
  if (parts.empty()) throw Error("[graph] nothing is there to be put together");
  const Tensor& first = parts[0];
  if (axis >= first.shape().rank()) throw Error("[graph] {} has no axis {}", to_string(first.shape()), axis);
  Index size = 0;
  for (const Tensor& part : parts) {
    if (part.dtype() != first.dtype() || part.shape().rank() != first.shape().rank() ||
        !(with_axis(part.shape(), axis, 0) == with_axis(first.shape(), axis, 0)))
      throw Error("[graph] {} and {} cannot be put together along axis {}",
                  to_string(TensorSpec{first.dtype(), first.shape()}),
                  to_string(TensorSpec{part.dtype(), part.shape()}), axis);
    size += part.shape()[axis];
  }
  Tensor whole(first.dtype(), with_axis(first.shape(), axis, size));
  const Index outer = first.shape().elements(0, axis), inner = first.shape().elements(axis + 1, first.shape().rank());
  Index at = 0;
  for (const Tensor& part : parts) {
    const Index row = part.shape()[axis] * inner;
    copy_blocks(part, row, 0, whole, size * inner, at, outer, row);
    at += row;
  }
  return whole;
}

Tensor stack(const std::vector<Tensor>& parts, size_t axis) {
  std::vector<Tensor> wider;
  for (const Tensor& part : parts) {
    if (axis > part.shape().rank()) throw Error("[graph] {} has no axis {}", to_string(part.shape()), axis);
    wider.push_back(part.reshaped(with_new_axis(part.shape(), axis)));
  }
  return concatenate(wider, axis);
}

}  // namespace d5
