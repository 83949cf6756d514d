// SPDX-License-Identifier: Apache-2.0
#include "d5/core/tensor.hpp"

#include <algorithm>

#include "d5/core/convert.hpp"

namespace d5 {

Tensor::Tensor(DType type, Shape shape, Memory& memory)
    : dtype_(type), shape_(std::move(shape)), memory_(&memory), present_(true) {
  constexpr Index most = Index{1} << 56;  // bits x elements stays below 2^63
  if (elements() > most)
    throw Error("[tensor] out of memory: {}[{}] has {} elements", name(type), to_string(shape_), elements());
  if (type == DType::string) {
    if (!memory.is_host()) throw Error("[tensor] strings live on the host, not on {}", memory.device());
    auto strings = std::make_shared<std::vector<std::string>>(static_cast<size_t>(elements()));
    data_ = strings->data();
    keep_ = strings;
    return;
  }
  auto buffer = std::make_shared<Buffer>(memory, bytes());
  data_ = buffer->data();
  keep_ = buffer;
}

Tensor Tensor::view(DType type, Shape shape, void* data, std::shared_ptr<void> keep, Memory& memory) {
  Tensor t;
  t.dtype_ = type;
  t.shape_ = std::move(shape);
  t.memory_ = &memory;
  t.data_ = data;
  t.keep_ = std::move(keep);
  t.present_ = true;
  return t;
}

Tensor Tensor::scalar(double value, DType type) { return from<double>({}, {value}).cast(type); }

Tensor Tensor::reshaped(Shape shape) const {
  if (shape.elements() != elements())
    throw Error("[tensor] {} cannot be reshaped to {}: {} and {} elements", to_string(shape_), to_string(shape),
                elements(), shape.elements());
  Tensor t = *this;
  t.shape_ = std::move(shape);
  return t;
}

Tensor Tensor::slice(Index first, Index count) const {
  if (shape_.rank() == 0 || first < 0 || count < 0 || first > shape_[0] || count > shape_[0] - first)
    throw Error("[tensor] {} rows from {} on are not in {}", count, first, to_string(shape_));
  const Index row = shape_.elements(1, shape_.rank());
  if (row * bits(dtype_) % 8 != 0)
    throw Error("[tensor] a row of {} {} values is no whole number of bytes", row, name(dtype_));
  std::vector<Index> sizes = shape_.sizes();
  sizes[0] = count;
  Tensor t = *this;
  t.shape_ = Shape(std::move(sizes));
  t.data_ = static_cast<char*>(data_) + storage_bytes(dtype_, first * row);
  return t;
}

Tensor Tensor::clone() const {
  if (!present_) return {};
  Tensor t(dtype_, shape_, *memory_);
  t.copy_from(*this);
  return t;
}

Tensor Tensor::to(Memory& memory) const {
  if (!present_ || &memory == memory_) return *this;
  Tensor t(dtype_, shape_, memory);
  t.copy_from(*this);
  return t;
}

Tensor Tensor::cast(DType type) const {
  if (!present_) return {};
  if (!memory_->is_host()) return to(host_memory()).cast(type);
  Tensor t(type, shape_);
  convert(dtype_, data_, type, t.data_, elements());
  return t;
}

void Tensor::copy_from(const Tensor& other) const {
  if (!present_ || !other.present_) throw Error("[tensor] cannot copy: one of the tensors is absent");
  if (other.dtype_ != dtype_ || other.elements() != elements())
    throw Error("[tensor] cannot copy {}[{}] into {}[{}]", name(other.dtype_), to_string(other.shape_), name(dtype_),
                to_string(shape_));
  if (dtype_ == DType::string) {
    std::ranges::copy(other.values<std::string>(), values<std::string>().begin());
  } else if (other.memory_->is_host()) {
    memory_->upload(data_, other.data_, bytes());
  } else if (memory_->is_host()) {
    other.memory_->download(data_, other.data_, bytes());
  } else {
    copy_from(other.to(host_memory()));
  }
}

void Tensor::fill_bytes(unsigned char byte) const {
  if (!present_) throw Error("[tensor] cannot fill: the tensor is absent");
  if (dtype_ == DType::string) throw Error("[tensor] strings have no bytes to fill");
  if (memory_->is_host()) {
    std::memset(data_, byte, bytes());
  } else {
    const std::vector<unsigned char> pattern(bytes(), byte);
    memory_->upload(data_, pattern.data(), pattern.size());
  }
}

void Tensor::fail_access(DType wanted) const {
  if (!present_) throw Error("[tensor] is absent, asked for as {}", name(wanted));
  if (!memory_->is_host()) throw Error("[tensor] lies on {}; values are read on the host", memory_->device());
  throw Error("[tensor] holds {}, asked for as {}", name(dtype_), name(wanted));
}

std::string to_string(const TensorSpec& spec) {
  return spec.present ? fmt::format("{}[{}]", name(spec.dtype), to_string(spec.shape)) : "absent";
}

}  // namespace d5
