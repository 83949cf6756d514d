// SPDX-License-Identifier: Apache-2.0
// Machine code for a program: one loop that loads a register of each stream, computes, and stores, so that memory is
// the only limit. Every instruction is the vector form of what the interpreted loop does: results are the same bits.
#pragma once

#include <memory>

#include "d5/training/program.hpp"

namespace d5 {

enum class Instructions { none, avx2, avx512 };
Instructions best_instructions();  // none: not x86-64, or older than AVX2

// Null where the program needs more registers than there are, or memory cannot be made executable.
std::unique_ptr<Loop> make_generated_loop(const Program&, Instructions);

}  // namespace d5
