// SPDX-License-Identifier: Apache-2.0
// Which elements indices mean. GatherElements and ScatterElements share one rule, GatherND and ScatterND another; an
// index counts from the end where it is negative, and one that is out of range is an Error with its place.
#pragma once

#include "d5/operators/selection.hpp"

namespace d5 {

// The position of `index` along an axis of `size` elements; `at` is its flat place in the indices.
Index checked_index(Index index, Index size, Index at, std::string_view place);

// Element i of the indices means the element of `data` at the same coordinates, but `axis` given by the index. Error
// unless indices fit into data along the other axes.
void check_element_indices(const Shape& data, const Shape& indices, size_t axis, std::string_view place);
Sources element_sources(const Shape& data, const Tensor& indices, size_t axis, std::string_view place);

// The last axis of the indices holds tuples of leading coordinates, after `batch` axes that data and indices have in
// common; what is meant are whole slices. The shape of what is meant:
Shape tuple_shape(const Shape& data, const Shape& indices, Index batch, std::string_view place);
Sources tuple_sources(const Shape& data, const Tensor& indices, Index batch, std::string_view place);

}  // namespace d5
