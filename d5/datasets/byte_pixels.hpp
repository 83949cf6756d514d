// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "d5/datasets/dataset.hpp"

namespace d5 {

// Channels x height x width of u8, which stand for 0 to 1.
bool has_byte_pixels(const std::vector<Field>&);
bool gives_byte_pixels(const Dataset&);  // it has them, or pictures that are still encoded

}  // namespace d5
