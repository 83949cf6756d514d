// SPDX-License-Identifier: Apache-2.0
// The loops in the vector and matrix instructions of x86; both lists are empty elsewhere and without AVX2 and FMA.
#pragma once

#include "d5/measure/isa.hpp"
#include "d5/measure/roofline_kernels.hpp"

namespace d5 {

std::vector<PeakKernel> x86_peak_kernels(const Isa&);
std::span<const StreamKernel> x86_stream_kernels(const Isa&);

}  // namespace d5
