// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/own/tensor_access.hpp"

#include "d5/core/parallel.hpp"
#include "d5/measure/cache.hpp"

namespace d5::onednn::own {

bool is_tile_type(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16 || type == DType::boolean;
}

const float* load(DType type, const void* base, Index offset, Index n, float* buffer) {
  const Values from = values_at(type, base, offset);
  if (type == DType::f32) return static_cast<const float*>(from.data);
  loops().convert(from, {buffer}, n);
  return buffer;
}

float load_one(DType type, const void* base, Index offset) {
  float value;
  return *load(type, base, offset, 1, &value);
}

void store(DType type, void* base, Index offset, const float* values, Index n) {
  const Place to = place_at(type, base, offset);
  if (to.data != values) loops().convert({values}, to, n);
}

bool exceeds_caches(double bytes) { return bytes > static_cast<double>(last_level_bytes(threads())); }

}  // namespace d5::onednn::own
