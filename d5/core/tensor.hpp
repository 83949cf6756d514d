// SPDX-License-Identifier: Apache-2.0
// A tensor: element type, shape, and a contiguous row-major range of a buffer on the host or a device. Copying the
// object shares the bytes; clone() copies them. Other layouts (blocked, channels last) belong to backends.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "d5/core/dtype.hpp"
#include "d5/core/memory.hpp"
#include "d5/core/shape.hpp"

namespace d5 {

class Tensor {
 public:
  Tensor() = default;                                               // absent: an optional input that is not there
  Tensor(DType type, Shape shape, Memory& memory = host_memory());  // owned, not initialised (strings: empty)
  // A view of bytes that `keep` owns; with keep empty the caller keeps them alive.
  static Tensor view(DType type, Shape shape, void* data, std::shared_ptr<void> keep = {}, Memory& = host_memory());
  template <class T>
  static Tensor from(Shape shape, const std::vector<T>& values);
  static Tensor scalar(double value, DType type = DType::f64);

  bool present() const { return present_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  Index elements() const { return shape_.elements(); }
  size_t bytes() const { return static_cast<size_t>(storage_bytes(dtype_, elements())); }
  Memory& memory() const { return *memory_; }
  void* data() const { return data_; }

  // Typed access on the host; an assertion-like Error when the type differs, or the tensor is absent or on a device.
  template <class T>
  std::span<T> values() const;

  Tensor reshaped(Shape shape) const;            // same bytes
  Tensor slice(Index first, Index count) const;  // rows of the first axis, same bytes
  Tensor clone() const;
  Tensor to(Memory& memory) const;            // itself where it is there already
  Tensor cast(DType type) const;              // converted elements, on the host, owned; rounds to nearest even
  void copy_from(const Tensor& other) const;  // same type, number of elements; any memories
  void fill_bytes(unsigned char byte) const;  // 0xff poisons floats with NaN

 private:
  [[noreturn]] void fail_access(DType wanted) const;
  DType dtype_ = DType::f32;
  Shape shape_;
  Memory* memory_ = nullptr;
  void* data_ = nullptr;
  std::shared_ptr<void> keep_;
  bool present_ = false;
};

// What is known of a tensor before it exists. `known` carries a small constant value (the shape input of Reshape).
struct TensorSpec {
  DType dtype = DType::f32;
  Shape shape;
  std::shared_ptr<const Tensor> known;
  bool present = true;

  Index elements() const { return shape.elements(); }
  double bytes() const { return static_cast<double>(storage_bytes(dtype, elements())); }
  static TensorSpec absent() { return {.present = false}; }
};
std::string to_string(const TensorSpec&);  // "f32[2x3]"

// ---- templates
template <class T>
std::span<T> Tensor::values() const {
  constexpr DType wanted = dtype_of<std::remove_const_t<T>>::value;
  if (wanted != dtype_ || !present_ || !memory_->is_host()) fail_access(wanted);
  return {static_cast<T*>(data_), static_cast<size_t>(elements())};
}
template <class T>
Tensor Tensor::from(Shape shape, const std::vector<T>& values) {
  Tensor t(dtype_of<T>::value, std::move(shape));
  if (static_cast<size_t>(t.elements()) != values.size())
    throw Error("[tensor] {} values for a tensor of {}", values.size(), to_string(t.shape()));
  std::copy(values.begin(), values.end(), t.values<T>().begin());
  return t;
}

}  // namespace d5
