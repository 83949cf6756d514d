// SPDX-License-Identifier: Apache-2.0
#include "d5/operators/indexing.hpp"

#include <algorithm>

#include "d5/operators/known.hpp"

namespace d5 {

Index checked_index(Index index, Index size, Index at, std::string_view place) {
  if (index < -size || index >= size)
    throw Error("{} index {} at element {} of the indices is out of range; an axis of {} has {} to {}", place, index,
                at, size, -size, size - 1);
  return index < 0 ? index + size : index;
}

void check_element_indices(const Shape& data, const Shape& indices, size_t axis, std::string_view place) {
  bool fits = data.rank() == indices.rank();
  for (size_t i = 0; fits && i < data.rank(); ++i) fits = i == axis || indices[i] <= data[i];
  if (!fits)
    throw Error("{} data are {} and indices {}: one rank is wanted, and indices no larger than data but along axis {}",
                place, to_string(data), to_string(indices), axis);
}

Sources element_sources(const Shape& data, const Tensor& indices, size_t axis, std::string_view place) {
  const Shape& shape = indices.shape();
  const auto strides = data.strides();
  Sources base;  // with coordinate 0 along the axis
  for (size_t i = 0; i < shape.rank(); ++i) base.add_axis(shape[i], i == axis ? 0 : strides[i]);
  const auto list = integers(indices);
  Sources from;
  auto& steps = from.steps.emplace_back(list.size());
  base.for_each(
      [&](Index i, Index source) { steps[i] = source + checked_index(list[i], data[axis], i, place) * strides[axis]; });
  return from;
}

Shape tuple_shape(const Shape& data, const Shape& indices, Index batch, std::string_view place) {
  if (data.rank() == 0 || indices.rank() == 0)
    throw Error("{} data are {} and indices {}: both need at least one axis", place, to_string(data),
                to_string(indices));
  const auto most = static_cast<Index>(std::min(data.rank(), indices.rank()));
  if (batch < 0 || batch >= most)
    throw Error("{} batch_dims is {}; 0 to {} are legal for data of {} and indices of {}", place, batch, most - 1,
                to_string(data), to_string(indices));
  for (Index i = 0; i < batch; ++i)
    if (data[i] != indices[i])
      throw Error("{} data are {} and indices {}: the first {} sizes must agree", place, to_string(data),
                  to_string(indices), batch);
  const Index length = indices.back(), rest = static_cast<Index>(data.rank()) - batch;
  if (length < 1 || length > rest)
    throw Error("{} indices are {}: tuples of {}; 1 to {} coordinates are legal for data of {}", place,
                to_string(indices), length, rest, to_string(data));
  std::vector<Index> sizes(indices.begin(), indices.end() - 1);
  sizes.insert(sizes.end(), data.begin() + (batch + length), data.end());
  return output_spec(DType::f64, std::move(sizes), place).shape;
}

Sources tuple_sources(const Shape& data, const Tensor& indices, Index batch, std::string_view place) {
  const auto strides = data.strides();
  const Index length = indices.shape().back();
  const auto list = integers(indices);
  const Index tuples = length == 0 ? 0 : static_cast<Index>(list.size()) / length;
  const Index batches = data.elements(0, static_cast<size_t>(batch));
  const Index stride = data.elements(static_cast<size_t>(batch), data.rank());
  Sources from;
  auto& starts = from.steps.emplace_back(static_cast<size_t>(tuples));
  for (Index t = 0; t < tuples; ++t) {
    starts[t] = t / (tuples / batches) * stride;
    for (Index k = 0; k < length; ++k)
      starts[t] += checked_index(list[t * length + k], data[batch + k], t * length + k, place) * strides[batch + k];
  }
  from.add_axis(data.elements(static_cast<size_t>(batch + length), data.rank()), 1);
  return from;
}

}  // namespace d5
