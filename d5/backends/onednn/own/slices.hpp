// SPDX-License-Identifier: Apache-2.0
// Slices of a tensor that indices name while the program runs (Gather, GatherElements, GatherND and the scatters):
// slice number i is `length` contiguous elements from start(i) on.
#pragma once

#include <string>

#include "d5/backends/onednn/own/tensor_access.hpp"

namespace d5::onednn::own {

class Slices {
 public:
  Slices() = default;
  // Of the operator's data (input 0) and indices (input 1).
  explicit Slices(const KernelSetup&);

  Index count() const { return count_; }
  Index length() const { return length_; }
  Index rows() const { return axis_size_; }  // of Gather: how many rows may be named
  // The coordinate along the axis, for Gather. Error on an index that is out of range, as the operator's own.
  Index row(const void* indices, Index slice) const { return checked(indices, slice % indices_, axis_size_); }
  Index start(const void* indices, Index slice) const;

 private:
  enum class Kind { rows, elements, tuples };
  Index checked(const void* indices, Index at, Index size) const;

  Kind kind_ = Kind::rows;
  std::string place_;
  bool wide_ = true;  // i64, else i32
  Index count_ = 0, length_ = 1, indices_ = 1;
  Index axis_size_ = 1, axis_stride_ = 1;                      // rows, elements
  std::vector<Index> sizes_, strides_;                         // elements: of the indices, of the data without the axis
  std::vector<Index> tuple_sizes_, tuple_strides_;             // tuples
  Index tuple_length_ = 1, tuples_per_batch_ = 1, batch_ = 1;  // batch: elements of the data in one
};

}  // namespace d5::onednn::own
