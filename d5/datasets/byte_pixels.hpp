// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "d5/datasets/dataset.hpp"

namespace d5 {

// Channels x height x width of u8, which stand for 0 to 1.
bool has_byte_pixels(const std::vector<Field>&);
bool has_byte_pixels(const Dataset&);  // pictures that are still encoded count, too

}  // namespace d5
