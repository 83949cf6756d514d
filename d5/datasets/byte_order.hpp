// SPDX-License-Identifier: Apache-2.0
// Numbers as files store them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace d5 {

template <class T>
T load(const uint8_t* from, std::endian order) {
  std::array<uint8_t, sizeof(T)> bytes;
  std::memcpy(bytes.data(), from, sizeof(T));
  if (order != std::endian::native) std::ranges::reverse(bytes);
  return std::bit_cast<T>(bytes);
}
template <class T>
T load_little(const uint8_t* from) {
  return load<T>(from, std::endian::little);
}
template <class T>
T load_big(const uint8_t* from) {
  return load<T>(from, std::endian::big);
}

template <class T>
std::array<uint8_t, sizeof(T)> stored(T value, std::endian order) {
  auto bytes = std::bit_cast<std::array<uint8_t, sizeof(T)>>(value);
  if (order != std::endian::native) std::ranges::reverse(bytes);
  return bytes;
}
template <class Out, class T>
void append_little(Out& out, T value) {
  for (const uint8_t byte : stored(value, std::endian::little))
    out.push_back(static_cast<typename Out::value_type>(byte));
}

// Reverses the bytes of `count` elements of `width` bytes in place.
inline void swap_elements(void* data, size_t count, size_t width) {
  auto* byte = static_cast<uint8_t*>(data);
  for (size_t i = 0; i < count; ++i, byte += width) std::reverse(byte, byte + width);
}

}  // namespace d5
