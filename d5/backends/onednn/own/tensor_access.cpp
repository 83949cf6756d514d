// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/own/tensor_access.hpp"

#include <cstring>

#include "d5/core/parallel.hpp"
#include "d5/measure/cache.hpp"

namespace d5::onednn::own {

bool is_tile_type(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16 || type == DType::boolean;
}

const float* load(DType type, const void* base, Index offset, Index n, float* buffer) {
  const char* from = element(type, base, offset);
  switch (type) {
    case DType::f32: return reinterpret_cast<const float*>(from);
    case DType::bf16: loops().from_bf16(reinterpret_cast<const uint16_t*>(from), buffer, n); break;
    case DType::f16: loops().from_f16(reinterpret_cast<const uint16_t*>(from), buffer, n); break;
    default: loops().from_bool(reinterpret_cast<const uint8_t*>(from), buffer, n); break;
  }
  return buffer;
}

float load_one(DType type, const void* base, Index offset) {
  float value;
  return *load(type, base, offset, 1, &value);
}

void store(DType type, void* base, Index offset, const float* values, Index n, bool streamed, void* narrow) {
  char* to = static_cast<char*>(base) + offset * tile_type_bytes(type);
  const void* converted = values;
  if (type != DType::f32) {
    void* direct = streamed ? narrow : to;
    if (type == DType::bf16)
      loops().to_bf16(values, static_cast<uint16_t*>(direct), n);
    else if (type == DType::f16)
      loops().to_f16(values, static_cast<uint16_t*>(direct), n);
    else
      loops().to_bool(values, static_cast<uint8_t*>(direct), n);
    if (!streamed) return;
    converted = narrow;
  }
  const Index bytes = n * tile_type_bytes(type);
  if (streamed)
    loops().stream(to, converted, bytes);
  else if (to != converted)
    std::memcpy(to, converted, static_cast<size_t>(bytes));
}

bool exceeds_caches(double bytes) { return bytes > static_cast<double>(last_level_bytes(threads())); }

}  // namespace d5::onednn::own
