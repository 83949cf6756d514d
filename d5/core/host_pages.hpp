// SPDX-License-Identifier: Apache-2.0
// For who maps memory of the host himself.
#pragma once

#include <cstddef>

namespace d5 {

// Error "out of memory" where the machine has not so much left: Linux promises more than there is and kills later.
void expect_available(size_t bytes);
void wish_huge_pages(void* begin, size_t bytes);  // of large buffers; it may be refused

}  // namespace d5
