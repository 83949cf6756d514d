// SPDX-License-Identifier: Apache-2.0
// The header of NumPy's .npy files (NEP 1), versions 1 to 3.
#pragma once

#include <memory>
#include <string>

#include "d5/datasets/file_bytes.hpp"

namespace d5 {

struct NpyHeader {
  DType dtype = DType::f64;
  Shape shape;
  bool swapped = false;  // stored in the other byte order
  bool columns = false;  // in Fortran's order: the first axis runs fastest
  uint64_t bytes = 0;    // of the header: elements begin there
  uint64_t contents() const { return static_cast<uint64_t>(storage_bytes(dtype, shape.elements())); }
};
// Elements that we have no type for: text, objects, records.
class ForeignElements : public SampleError {
 public:
  using SampleError::SampleError;
};
// Of the array that lies at `offset` and has `size` bytes with its header. SampleError where it is none, is cut short
// or has ForeignElements.
NpyHeader npy_header(const FileBytes&, uint64_t offset, uint64_t size);
std::string npy_header_text(DType, const Shape&);  // a whole number of 64 bytes

// Arrays by name as a .npz file, each with its own shape.
void write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays);

// Elements `first` ... of such an array as field `field` of a sample.
void give_elements(const FileBytes&, const NpyHeader&, uint64_t array, uint64_t first, const Shape&, Sample& into,
                   size_t field);

}  // namespace d5
