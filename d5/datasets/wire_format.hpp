// SPDX-License-Identifier: Apache-2.0
// Protocol Buffers' wire format, as much of it as tf.train.Example and Caffe's Datum need.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "d5/datasets/byte_order.hpp"
#include "d5/datasets/dataset.hpp"

namespace d5 {

// The fields of a message, one after the other. SampleError where the bytes are no message.
class WireReader {
 public:
  explicit WireReader(std::span<const uint8_t> message) : at_(message.data()), end_(at_ + message.size()) {}

  bool next() {  // false: the end
    if (at_ == end_) return false;
    const uint64_t key = varint();
    field_ = static_cast<uint32_t>(key >> 3);
    type_ = static_cast<uint32_t>(key & 7);
    if (field_ == 0 || key >> 32) fail();
    return true;
  }
  uint32_t field() const { return field_; }
  uint32_t type() const { return type_; }  // 0 varint, 1 eight bytes, 2 bytes with a length, 5 four bytes

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) fail();
      const uint8_t byte = *at_++;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
    fail();
  }
  std::span<const uint8_t> bytes() {
    if (type_ != 2) fail();
    const uint64_t length = varint();
    if (length > static_cast<uint64_t>(end_ - at_)) fail();
    const std::span<const uint8_t> found(at_, length);
    at_ += length;
    return found;
  }
  template <class T>
  T fixed() {
    if (static_cast<size_t>(end_ - at_) < sizeof(T)) fail();
    const T value = load_little<T>(at_);
    at_ += sizeof(T);
    return value;
  }
  void skip() {
    switch (type_) {
      case 0: varint(); break;
      case 1: fixed<uint64_t>(); break;
      case 2: bytes(); break;
      case 5: fixed<uint32_t>(); break;
      default: fail();
    }
  }

 private:
  [[noreturn]] static void fail() {
    throw SampleError("[protobuf] the bytes are no message: broken or of another kind");
  }
  const uint8_t *at_, *end_;
  uint32_t field_ = 0, type_ = 0;
};

// ---- writing: appends to a string
inline void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
inline void put_number(std::string& out, uint32_t field, uint64_t value) {
  put_varint(out, uint64_t{field} << 3);
  put_varint(out, value);
}
inline void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_varint(out, uint64_t{field} << 3 | 2);
  put_varint(out, bytes.size());
  out.append(bytes);
}

}  // namespace d5
