// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/own/loops.hpp"

#include "d5/measure/isa.hpp"

namespace d5::onednn::own {

namespace baseline {
extern const Loops table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Loops table;
}
namespace avx512 {
extern const Loops table;
}
#endif

const Loops& loops() {
  static const Loops& best = []() -> const Loops& {
#if defined(__x86_64__)
    const Isa& isa = usable_isa();
    // What -march=x86-64-v4 and -v3 let the compiler use; processors with AVX2 have the bit instructions of v3, too.
    if (isa.avx512f && isa.avx512bw && isa.avx512dq && isa.avx512vl && isa.fma && isa.f16c) return avx512::table;
    if (isa.avx2 && isa.fma && isa.f16c) return avx2::table;
#endif
    return baseline::table;
  }();
  return best;
}

const TileFunctions* find_functions(std::string_view op) {
  for (const Loops::Table& table : loops().functions)
    for (size_t i = 0; i < table.count; ++i)
      if (op == table.rows[i].op) return &table.rows[i];
  return nullptr;
}

}  // namespace d5::onednn::own
