// SPDX-License-Identifier: Apache-2.0
// The loops behind the roofline. Each runs on one thread; which of them a machine can run is decided at run time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "d5/core/dtype.hpp"

namespace d5 {

// Arithmetic from registers alone, with enough independent sums to fill the pipelines.
struct PeakKernel {
  DType dtype;
  std::string_view name;  // "avx512f", "avx2", "portable", "avx512_bf16", ...
  double flops_per_iteration;
  void (*run)(int64_t iterations);
};
const std::vector<PeakKernel>& usable_peak_kernels();  // of one type, wider ones later

// `passes` walks over `floats` elements per array (a multiple of 64, 64-byte aligned). Bytes count each array once per
// pass: read 1, copy 2, triad 3. "stream" is a copy whose stores pass the caches by: from memory the fastest of all.
// "fill" has such stores alone.
struct StreamKernel {
  std::string_view name;  // "read", "copy", "triad", "stream", "fill"
  int arrays;
  float (*run)(float* a, const float* b, const float* c, int64_t floats, int64_t passes);
};
std::span<const StreamKernel> usable_stream_kernels();  // in the widest usable vectors

}  // namespace d5
