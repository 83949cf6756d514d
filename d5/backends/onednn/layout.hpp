// SPDX-License-Identifier: Apache-2.0
// oneDNN's memory descriptors as layouts.
#pragma once

#include "d5/backends/kernel.hpp"
#include "d5/backends/onednn/engine.hpp"

namespace d5::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

Dims dims_of(const Shape&);                             // a scalar has one element
Desc row_major(DType, const Dims&);                     // of any rank, dense
Desc strided(DType, const Dims&, const Dims& strides);  // transposed views
Desc channels_last(DType, const Dims&);                 // n, spatial..., c
Desc any_layout(DType, const Dims&);                    // the primitive chooses
Desc ordered(DType, const Dims&, const AxisOrder&);     // axes as they lie

// The images that a convolution or a pool reads and writes, as they lie. Where one channel, or one pixel, lets an order
// be read both ways it is channels last in a network, which the library knows best.
struct Images {
  Desc x, y;
  explicit Images(const KernelSetup&);
};
bool is_row_major(const Desc&);

// "f32[64x64x3x3]:AcdB16b64a": the same name holds the same bytes.
std::string describe(const Desc&);

// `native`, or null where that is the plain view itself.
LayoutPtr make_layout(const Desc& plain, const Desc& native);

}  // namespace d5::onednn
