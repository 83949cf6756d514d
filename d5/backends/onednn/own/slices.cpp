// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/own/slices.hpp"

#include "d5/operators/indexing.hpp"

namespace d5::onednn::own {

Slices::Slices(const KernelSetup& setup) : place_("[" + setup.node.op + "]") {
  const Shape &x = setup.inputs[0].shape, &indices = setup.inputs[1].shape;
  const auto strides = x.strides();
  const Attributes& a = setup.node.attributes;
  wide_ = setup.inputs[1].dtype == DType::i64;
  indices_ = indices.elements();
  if (setup.node.op == "GatherND" || setup.node.op == "ScatterND") {
    kind_ = Kind::tuples;
    const auto batch = static_cast<size_t>(a.integer("batch_dims", 0));
    tuple_length_ = indices.back();
    const size_t used = batch + static_cast<size_t>(tuple_length_);
    tuple_sizes_.assign(x.begin() + static_cast<std::ptrdiff_t>(batch), x.begin() + static_cast<std::ptrdiff_t>(used));
    tuple_strides_.assign(strides.begin() + static_cast<std::ptrdiff_t>(batch),
                          strides.begin() + static_cast<std::ptrdiff_t>(used));
    count_ = indices.elements(0, indices.rank() - 1);
    length_ = x.elements(used, x.rank());
    tuples_per_batch_ = std::max<Index>(1, indices.elements(batch, indices.rank() - 1));
    batch_ = x.elements(batch, x.rank());
    return;
  }
  const size_t axis = valid_axis(a.integer("axis", 0), x.rank(), place_);
  axis_size_ = x[axis];
  axis_stride_ = strides[axis];
  if (setup.node.op == "Gather") {
    length_ = x.elements(axis + 1, x.rank());
    count_ = x.elements(0, axis) * indices_;
    return;
  }
  kind_ = Kind::elements;
  count_ = indices_;
  sizes_ = indices.sizes();
  strides_ = strides;
  strides_[axis] = 0;
}

Index Slices::checked(const void* indices, Index at, Index size) const {
  const Index index = wide_ ? static_cast<const int64_t*>(indices)[at] : static_cast<const int32_t*>(indices)[at];
  if (index >= 0 && index < size) return index;
  return checked_index(index, size, at, place_);
}

Index Slices::start(const void* indices, Index slice) const {
  if (kind_ == Kind::rows)
    return (slice / indices_ * axis_size_ + checked(indices, slice % indices_, axis_size_)) * axis_stride_;
  if (kind_ == Kind::elements) {
    Index start = checked(indices, slice, axis_size_) * axis_stride_, rest = slice;
    for (size_t axis = sizes_.size(); axis-- > 0; rest /= sizes_[axis]) start += rest % sizes_[axis] * strides_[axis];
    return start;
  }
  Index start = slice / tuples_per_batch_ * batch_;
  for (Index k = 0; k < tuple_length_; ++k)
    start += checked(indices, slice * tuple_length_ + k, tuple_sizes_[static_cast<size_t>(k)]) *
             tuple_strides_[static_cast<size_t>(k)];
  return start;
}

}  // namespace d5::onednn::own
