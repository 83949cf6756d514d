// SPDX-License-Identifier: Apache-2.0
// A part of a picture at another size, as Pillow's bilinear filter makes it: output pixel i looks around
// c = begin + (i + 1/2) s, s = the part's size / the new size, with weights max(0, 1 - |x + 1/2 - c| / max(s, 1)) that
// are divided by their sum. So what becomes smaller is averaged and not skipped.
#pragma once

#include "d5/core/shape.hpp"

namespace d5 {

// In pixels, which may be fractions of them.
struct Area {
  double top = 0, left = 0, height = 0, width = 0;
};

// Planes of height x width pixels, one after the other; pixel type u8 or f32. All pixels of the source count, also
// those beside the area that the filter reaches.
template <class T>
struct Planes {
  const T* pixels = nullptr;
  Index count = 1, height = 0, width = 0;
  Index line = 0, plane = 0;  // elements from one line, and one plane, to the next
};
template <class T>
void resample(const Planes<T>& from, const Area&, T* to, Index new_height, Index new_width);

}  // namespace d5
