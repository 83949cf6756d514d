// SPDX-License-Identifier: Apache-2.0
#include "d5/training/sixteen_bits.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "d5/training/generated_loop.hpp"

namespace d5 {
namespace {

// The same loop, compiled for each instruction set.
template <class To, class From>
[[gnu::always_inline]] inline void each(const From* from, To* to, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) to[i] = static_cast<To>(from[i]);
}
#if defined(__x86_64__)
template <class To, class From>
__attribute__((target("avx2"))) void each_avx2(const From* from, To* to, int64_t elements) {
  each(from, to, elements);
}
template <class To, class From>
__attribute__((target("avx512f,avx512bw,avx512vl"))) void each_avx512(const From* from, To* to, int64_t elements) {
  each(from, to, elements);
}
// Of f16 processors have instructions, with the same bits.
__attribute__((target("avx512f"))) void each_avx512(const Half* from, float* to, int64_t elements) {
  int64_t i = 0;
  for (; i + 16 <= elements; i += 16)
    _mm512_storeu_ps(to + i,
                     _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(from + i))));
  each(from + i, to + i, elements - i);
}
__attribute__((target("avx512f"))) void each_avx512(const float* from, Half* to, int64_t elements) {
  int64_t i = 0;
  for (; i + 16 <= elements; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to + i),
                        _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  each(from + i, to + i, elements - i);
}
#endif

template <class To, class From>
void convert_all(const From* from, To* to, int64_t elements) {
#if defined(__x86_64__)
  static const Instructions best = best_instructions();
  if (best == Instructions::avx512) return each_avx512(from, to, elements);
  if (best == Instructions::avx2) return each_avx2(from, to, elements);
#endif
  each(from, to, elements);
}

}  // namespace

void widen(DType type, const void* from, float* to, int64_t elements) {
  if (type == DType::bf16) return convert_all(static_cast<const BFloat16*>(from), to, elements);
  convert_all(static_cast<const Half*>(from), to, elements);
}

void narrow(const float* from, DType type, void* to, int64_t elements) {
  if (type == DType::bf16) return convert_all(from, static_cast<BFloat16*>(to), elements);
  convert_all(from, static_cast<Half*>(to), elements);
}

}  // namespace d5
