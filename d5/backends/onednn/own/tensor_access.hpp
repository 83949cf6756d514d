// SPDX-License-Identifier: Apache-2.0
// Whose memory a loop works on, and elements of any storable type as tiles of f32.
#pragma once

#include "d5/backends/kernel.hpp"
#include "d5/backends/onednn/own/loops.hpp"

namespace d5::onednn::own {

// Of the workspace: index in bytes. more_gradient: a further summand of output 0's gradient.
enum class Part { input, output, input_gradient, output_gradient, workspace, more_gradient };

struct Operand {
  Part part;
  size_t index;
  DType type;
  Shape shape;

  void* data(const Buffers& b) const {
    switch (part) {
      case Part::input: return b.inputs[index];
      case Part::output: return b.outputs[index];
      case Part::input_gradient: return b.input_gradients[index];
      case Part::workspace: return static_cast<char*>(b.workspace) + index;
      case Part::more_gradient: return b.more_gradients[index];
      default: return b.output_gradients[index];
    }
  }
};
inline Operand input(const KernelSetup& s, size_t i) { return {Part::input, i, s.inputs[i].dtype, s.inputs[i].shape}; }
inline Operand output(const KernelSetup& s, size_t i) {
  return {Part::output, i, s.outputs[i].dtype, s.outputs[i].shape};
}
inline Operand input_gradient(const KernelSetup& s, size_t i) {
  return {Part::input_gradient, i, s.inputs[i].dtype, s.inputs[i].shape};
}
inline Operand output_gradient(const KernelSetup& s, size_t i) {
  return {Part::output_gradient, i, s.outputs[i].dtype, s.outputs[i].shape};
}

// Types that loops know.
bool is_tile_type(DType);
inline Element element_type(DType type) {
  return type == DType::bf16      ? Element::bf16
         : type == DType::f16     ? Element::f16
         : type == DType::boolean ? Element::boolean
                                  : Element::f32;
}
inline Index tile_type_bytes(DType type) { return type == DType::f32 ? 4 : type == DType::boolean ? 1 : 2; }
inline Values values_at(DType type, const void* base, Index offset) {
  return {static_cast<const char*>(base) + offset * tile_type_bytes(type), element_type(type)};
}
inline Place place_at(DType type, void* base, Index offset, bool streamed = false) {
  return {static_cast<char*>(base) + offset * tile_type_bytes(type), element_type(type), streamed};
}

// n elements from `offset` on, in f32: where they lie, or converted into `buffer`.
const float* load(DType, const void* base, Index offset, Index n, float* buffer);
float load_one(DType, const void* base, Index offset);
void store(DType, void* base, Index offset, const float* values, Index n);

// Whether an operation that touches so many bytes should write past the caches.
bool exceeds_caches(double bytes);

// The distance between tiles: not a multiple of 4096 bytes, where a load would wait for a store to a neighbour.
inline constexpr size_t tile_bytes = tile_elements * sizeof(float) + 320;
inline size_t aligned_bytes(size_t bytes) { return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes; }

}  // namespace d5::onednn::own
