// SPDX-License-Identifier: Apache-2.0
// Each loop is compiled for its own instructions and chosen at run time. A sum waits 4 to 10 cycles for itself and up
// to two start per cycle: 24 sums (12 where there are 16 registers) hide that and leave registers for the operands.
#include "d5/measure/roofline_kernels_x86.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define D5_TARGET(features) __attribute__((target(features)))

namespace d5 {
namespace {

// `count` sums of type V, each replaced by `instruction` of itself and an operand. The instruction is written out
// because compilers copy and spill the sums of some intrinsics, which halves the rate.
#define D5_PEAK_LOOP(V, count, instruction, operand)                       \
  const V other = operand;                                                 \
  V sum[count] = {};                                                       \
  for (int64_t i = 0; i < iterations; ++i) {                               \
    _Pragma("GCC unroll 24") for (int j = 0; j < count; ++j) {             \
      asm volatile(instruction " %1, %1, %0" : "+v"(sum[j]) : "v"(other)); \
    }                                                                      \
  }

// Factor and term one half: every sum goes to 1 and stays there, far from overflow and denormals.
D5_TARGET("avx2,fma") void f32_avx2(int64_t iterations) {
  D5_PEAK_LOOP(__m256, 12, "vfmadd132ps", _mm256_set1_ps(0.5f));
}
D5_TARGET("avx2,fma") void f64_avx2(int64_t iterations) {
  D5_PEAK_LOOP(__m256d, 12, "vfmadd132pd", _mm256_set1_pd(0.5));
}
D5_TARGET("avx512f") void f32_avx512(int64_t iterations) {
  D5_PEAK_LOOP(__m512, 24, "vfmadd132ps", _mm512_set1_ps(0.5f));
}
D5_TARGET("avx512f") void f64_avx512(int64_t iterations) {
  D5_PEAK_LOOP(__m512d, 24, "vfmadd132pd", _mm512_set1_pd(0.5));
}
// 0x3c00 is 1/128 in bf16: two products add 2^-13, so that sums grow slowly and stay finite.
D5_TARGET("avx512f,avx512bf16") void bf16_avx512(int64_t iterations) {
  D5_PEAK_LOOP(__m512i, 24, "vdpbf16ps", _mm512_set1_epi16(0x3c00));
}
D5_TARGET("avx512f,avx512vnni") void i8_avx512(int64_t iterations) {
  D5_PEAK_LOOP(__m512i, 24, "vpdpbusd", _mm512_set1_epi8(1));
}
D5_TARGET("avx2,avxvnni") void i8_avx2(int64_t iterations) {
  D5_PEAK_LOOP(__m256i, 12, "%{vex%} vpdpbusd", _mm256_set1_epi8(1));
}

// Eight tiles of 16 rows of 64 bytes: six sums, two operands.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

#define D5_TILE_LOOP(multiply, operand)                                                                     \
  alignas(64) uint8_t bytes[1024];                                                                          \
  for (size_t j = 0; j < sizeof bytes; ++j) bytes[j] = operand;                                             \
  const TileConfiguration configuration;                                                                    \
  asm volatile("" : : "r"(&configuration), "r"(bytes) : "memory"); /* GCC 12 drops the stores without it */ \
  _tile_loadconfig(&configuration);                                                                         \
  _tile_zero(0);                                                                                            \
  _tile_zero(1);                                                                                            \
  _tile_zero(2);                                                                                            \
  _tile_zero(3);                                                                                            \
  _tile_zero(4);                                                                                            \
  _tile_zero(5);                                                                                            \
  _tile_loadd(6, bytes, 64);                                                                                \
  _tile_loadd(7, bytes, 64);                                                                                \
  for (int64_t i = 0; i < iterations; ++i) {                                                                \
    multiply(0, 6, 7);                                                                                      \
    multiply(1, 6, 7);                                                                                      \
    multiply(2, 6, 7);                                                                                      \
    multiply(3, 6, 7);                                                                                      \
    multiply(4, 6, 7);                                                                                      \
    multiply(5, 6, 7);                                                                                      \
  }                                                                                                         \
  _tile_release()

// Bytes 0x3c, 0x3c make bf16 numbers near 1/87.
D5_TARGET("amx-tile,amx-bf16") void bf16_amx(int64_t iterations) { D5_TILE_LOOP(_tile_dpbf16ps, 0x3c); }
D5_TARGET("amx-tile,amx-int8") void i8_amx(int64_t iterations) { D5_TILE_LOOP(_tile_dpbssd, 1); }

// Linux hands out the tile registers on request only.
bool request_tiles() {
  constexpr int request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

#define D5_STREAM_LOOP(step)                                \
  for (int64_t pass = 0; pass < passes; ++pass) {           \
    for (int64_t i = 0; i < floats; i += 4 * width) {       \
      _Pragma("GCC unroll 4") for (int j = 0; j < 4; ++j) { \
        const int64_t at = i + j * width;                   \
        step;                                               \
      }                                                     \
      asm volatile("" ::: "memory");                        \
    }                                                       \
  }

// The barrier in the loop keeps a copy from becoming a call of memcpy. Reading ends in an exclusive or, whose one cycle
// is never the limit.
D5_TARGET("avx512f") float read_avx512(float* a, const float*, const float*, int64_t floats, int64_t passes) {
  constexpr int width = 16;
  __m512i sum[4] = {};
  D5_STREAM_LOOP(sum[j] = _mm512_xor_si512(sum[j], _mm512_load_si512(a + at)))
  const __m512i all = _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3]));
  return _mm512_cvtss_f32(_mm512_castsi512_ps(all));
}
D5_TARGET("avx512f") float copy_avx512(float* a, const float* b, const float*, int64_t floats, int64_t passes) {
  constexpr int width = 16;
  D5_STREAM_LOOP(_mm512_store_ps(a + at, _mm512_load_ps(b + at)))
  return a[0];
}
D5_TARGET("avx512f") float stream_avx512(float* a, const float* b, const float*, int64_t floats, int64_t passes) {
  constexpr int width = 16;
  D5_STREAM_LOOP(_mm512_stream_ps(a + at, _mm512_load_ps(b + at)))
  _mm_sfence();
  return a[0];
}
// Not zeros: a line of them may never reach memory.
D5_TARGET("avx512f") float fill_avx512(float* a, const float*, const float*, int64_t floats, int64_t passes) {
  constexpr int width = 16;
  D5_STREAM_LOOP(_mm512_stream_ps(a + at, _mm512_set1_ps(1.0f)))
  _mm_sfence();
  return a[0];
}
D5_TARGET("avx512f") float triad_avx512(float* a, const float* b, const float* c, int64_t floats, int64_t passes) {
  constexpr int width = 16;
  const __m512 half = _mm512_set1_ps(0.5f);
  D5_STREAM_LOOP(_mm512_store_ps(a + at, _mm512_fmadd_ps(half, _mm512_load_ps(c + at), _mm512_load_ps(b + at))))
  return a[0];
}

D5_TARGET("avx2,fma") float read_avx2(float* a, const float*, const float*, int64_t floats, int64_t passes) {
  constexpr int width = 8;
  __m256 sum[4] = {};
  D5_STREAM_LOOP(sum[j] = _mm256_xor_ps(sum[j], _mm256_load_ps(a + at)))
  return _mm256_cvtss_f32(_mm256_xor_ps(_mm256_xor_ps(sum[0], sum[1]), _mm256_xor_ps(sum[2], sum[3])));
}
D5_TARGET("avx2,fma") float copy_avx2(float* a, const float* b, const float*, int64_t floats, int64_t passes) {
  constexpr int width = 8;
  D5_STREAM_LOOP(_mm256_store_ps(a + at, _mm256_load_ps(b + at)))
  return a[0];
}
D5_TARGET("avx2,fma") float stream_avx2(float* a, const float* b, const float*, int64_t floats, int64_t passes) {
  constexpr int width = 8;
  D5_STREAM_LOOP(_mm256_stream_ps(a + at, _mm256_load_ps(b + at)))
  _mm_sfence();
  return a[0];
}
D5_TARGET("avx2,fma") float fill_avx2(float* a, const float*, const float*, int64_t floats, int64_t passes) {
  constexpr int width = 8;
  D5_STREAM_LOOP(_mm256_stream_ps(a + at, _mm256_set1_ps(1.0f)))
  _mm_sfence();
  return a[0];
}
D5_TARGET("avx2,fma") float triad_avx2(float* a, const float* b, const float* c, int64_t floats, int64_t passes) {
  constexpr int width = 8;
  const __m256 half = _mm256_set1_ps(0.5f);
  D5_STREAM_LOOP(_mm256_store_ps(a + at, _mm256_fmadd_ps(half, _mm256_load_ps(c + at), _mm256_load_ps(b + at))))
  return a[0];
}

}  // namespace

std::vector<PeakKernel> x86_peak_kernels(const Isa& isa) {
  std::vector<PeakKernel> all;
  const bool tiles = isa.amx_tile && request_tiles();
  const auto add = [&](bool usable, DType type, std::string_view name, double flops, void (*run)(int64_t)) {
    if (usable) all.push_back({type, name, flops, run});
  };
  const bool avx2 = isa.avx2 && isa.fma;
  add(avx2, DType::f32, "avx2", 12 * 8 * 2, f32_avx2);
  add(avx2, DType::f64, "avx2", 12 * 4 * 2, f64_avx2);
  add(isa.avx512f, DType::f32, "avx512f", 24 * 16 * 2, f32_avx512);
  add(isa.avx512f, DType::f64, "avx512f", 24 * 8 * 2, f64_avx512);
  add(isa.avx512_bf16, DType::bf16, "avx512_bf16", 24 * 32 * 2, bf16_avx512);
  add(tiles && isa.amx_bf16, DType::bf16, "amx_bf16", 6 * 16 * 16 * 32 * 2, bf16_amx);
  add(isa.avx_vnni, DType::i8, "avx_vnni", 12 * 32 * 2, i8_avx2);
  add(isa.avx512_vnni, DType::i8, "avx512_vnni", 24 * 64 * 2, i8_avx512);
  add(tiles && isa.amx_int8, DType::i8, "amx_int8", 6 * 16 * 16 * 64 * 2, i8_amx);
  return all;
}

std::span<const StreamKernel> x86_stream_kernels(const Isa& isa) {
  static constexpr StreamKernel avx512[] = {{"read", 1, read_avx512},
                                            {"copy", 2, copy_avx512},
                                            {"triad", 3, triad_avx512},
                                            {"stream", 2, stream_avx512},
                                            {"fill", 1, fill_avx512}};
  static constexpr StreamKernel avx2[] = {{"read", 1, read_avx2},
                                          {"copy", 2, copy_avx2},
                                          {"triad", 3, triad_avx2},
                                          {"stream", 2, stream_avx2},
                                          {"fill", 1, fill_avx2}};
  if (isa.avx512f) return avx512;
  if (isa.avx2 && isa.fma) return avx2;
  return {};
}

}  // namespace d5

#else

namespace d5 {

std::vector<PeakKernel> x86_peak_kernels(const Isa&) { return {}; }
std::span<const StreamKernel> x86_stream_kernels(const Isa&) { return {}; }

}  // namespace d5
#endif
