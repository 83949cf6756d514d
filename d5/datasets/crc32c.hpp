// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli; RFC 3720, appendix B.4), by the processor's instruction where it has one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace d5 {

uint32_t crc32c(const void* data, size_t bytes);
uint32_t crc32c_plain(const void* data, size_t bytes);  // by tables, on any machine; the same number

// As TFRecord stores it: rotated and shifted, so that the sum of bytes that hold sums is not weak.
inline uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace d5
