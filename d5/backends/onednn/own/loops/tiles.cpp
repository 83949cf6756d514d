// SPDX-License-Identifier: Apache-2.0
// Conversions, streaming stores, reductions and lines, and the table of all loops of this instruction set.
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "d5/backends/onednn/own/loops/joined.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

// ---- conversions
void from_bf16(const uint16_t* x, float* y, int64_t n) {
  D5_EACH(n) y[i] = float_of(static_cast<uint32_t>(x[i]) << 16);
}
void to_bf16(const float* x, uint16_t* y, int64_t n) {
  D5_EACH(n) {
    const uint32_t u = bits_of(x[i]);
    const uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u);
    y[i] = static_cast<uint16_t>((x[i] != x[i] ? u | 0x00400000u : rounded) >> 16);
  }
}
void from_f16(const uint16_t* x, float* y, int64_t n) {
  D5_EACH(n) {
    const uint32_t sign = (x[i] & 0x8000u) << 16, magnitude = x[i] & 0x7fffu;
    const uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u);
    const uint32_t tiny = bits_of(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
    y[i] = float_of(sign | (magnitude < 0x400u ? tiny : normal));
  }
}
void to_f16(const float* x, uint16_t* y, int64_t n) {
  D5_EACH(n) {
    const uint32_t u = bits_of(x[i]), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
    const uint32_t tiny = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;  // the grid of denormals: see core/dtype
    const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    uint32_t code = magnitude < 0x38800000u ? tiny : normal;
    code = magnitude >= 0x477ff000u ? 0x7c00u : code;
    code = magnitude > 0x7f800000u ? nan : code;
    y[i] = static_cast<uint16_t>(sign | code);
  }
}
void from_bool(const uint8_t* x, float* y, int64_t n) { D5_EACH(n) y[i] = x[i] ? 1.0f : 0.0f; }
void to_bool(const float* x, uint8_t* y, int64_t n) { D5_EACH(n) y[i] = x[i] != 0.0f ? 1 : 0; }
void fill(float* y, float value, int64_t n) { D5_EACH(n) y[i] = value; }

// ---- streaming
#if defined(__AVX512F__)
constexpr int64_t vector_bytes = 64;
D5_INLINE void stream_vector(char* to, const char* from) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
}
#elif defined(__AVX__)
constexpr int64_t vector_bytes = 32;
D5_INLINE void stream_vector(char* to, const char* from) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
#elif defined(__SSE2__)
constexpr int64_t vector_bytes = 16;
D5_INLINE void stream_vector(char* to, const char* from) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
#endif

void stream(void* target, const void* source, int64_t bytes) {
  char* to = static_cast<char*>(target);
  const char* from = static_cast<const char*>(source);
#if defined(__SSE2__)
  const int64_t before = -reinterpret_cast<intptr_t>(to) & (vector_bytes - 1), head = before < bytes ? before : bytes;
  if (head > 0) __builtin_memcpy(to, from, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + vector_bytes <= bytes; i += vector_bytes) stream_vector(to + i, from + i);
  if (i < bytes) __builtin_memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
#else
  __builtin_memcpy(to, from, static_cast<size_t>(bytes));
#endif
}
void fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// ---- reductions
template <class Join>
void merge(float* sums, const float* x, int64_t n) {
  D5_EACH(n) sums[i] = Join::join(sums[i], x[i]);
}
float dot(const float* a, const float* b, int64_t n) {
  return joined<Plus>(n, [a, b](int64_t i) { return a[i] * b[i]; });
}

// ---- lines
float sum_of_squares(const float* x, float mean, int64_t n) {
  return joined<Plus>(n, [x, mean](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
}
float exponentials(const float* x, float top, float* y, int64_t n) {
  D5_EACH(n) y[i] = exp_of(x[i] - top);
  return reduce<Plus>(y, n);
}
void scale(float* y, const float* x, float factor, float term, int64_t n) { D5_EACH(n) y[i] = factor * x[i] + term; }
void normalize(float* y, const float* x, float mean, float rstd, const float* gain, const float* bias, int64_t n) {
  if (gain && bias) {
    D5_EACH(n) y[i] = (x[i] - mean) * rstd * gain[i] + bias[i];
  } else if (gain) {
    D5_EACH(n) y[i] = (x[i] - mean) * rstd * gain[i];
  } else {
    D5_EACH(n) y[i] = (x[i] - mean) * rstd;
  }
}
void normalize_sums(const float* x, const float* dy, float mean, float rstd, const float* gain, float* dgain,
                    float* dbias, int64_t n, float results[2]) {
  if (gain) {
    results[0] = dot(dy, gain, n);
    results[1] = joined<Plus>(n, [=](int64_t i) { return dy[i] * gain[i] * ((x[i] - mean) * rstd); });
  } else {
    results[0] = reduce<Plus>(dy, n);
    results[1] = joined<Plus>(n, [=](int64_t i) { return dy[i] * ((x[i] - mean) * rstd); });
  }
  if (dgain) D5_EACH(n) dgain[i] += dy[i] * ((x[i] - mean) * rstd);
  if (dbias) D5_EACH(n) dbias[i] += dy[i];
}
void normalize_gradient(float* dx, const float* x, const float* dy, float mean, float rstd, const float* gain, float a,
                        float b, int64_t n) {
  if (gain) {
    D5_EACH(n) dx[i] = rstd * (dy[i] * gain[i] - a - (x[i] - mean) * rstd * b);
  } else {
    D5_EACH(n) dx[i] = rstd * (dy[i] - a - (x[i] - mean) * rstd * b);
  }
}
void softmax_gradient(float* dx, const float* y, const float* dy, float product, int64_t n) {
  D5_EACH(n) dx[i] = y[i] * (dy[i] - product);
}
void log_softmax_gradient(float* dx, const float* y, const float* dy, float sum, int64_t n) {
  D5_EACH(n) dx[i] = dy[i] - exp_of(y[i]) * sum;
}

#define D5_QUOTE_(x) #x
#define D5_QUOTE(x) D5_QUOTE_(x)

}  // namespace

extern const ChannelLoops channel_table;
extern const Loops table;
const Loops table = {
    .isa = D5_QUOTE(D5_ISA),
    .channels = &channel_table,
    .functions = {{unary_functions, unary_count},
                  {activation_functions, activation_count},
                  {binary_functions, binary_count},
                  {reduction_functions, reduction_count}},
    .from_bf16 = from_bf16,
    .to_bf16 = to_bf16,
    .from_f16 = from_f16,
    .to_f16 = to_f16,
    .from_bool = from_bool,
    .to_bool = to_bool,
    .fill = fill,
    .stream = stream,
    .fence = fence,
    .reduce = {reduce<Plus>, reduce<Times>, reduce<Largest>, reduce<Smallest>},
    .merge = {merge<Plus>, merge<Times>, merge<Largest>, merge<Smallest>},
    .merge_pairs = {log_sum_exp_merge, max_ties_merge, min_ties_merge, product_zeros_merge},
    .reduce_pair = {log_sum_exp_pair, max_ties_pair, min_ties_pair, product_zeros_pair},
    .dot = dot,
    .sum_of_squares = sum_of_squares,
    .exponentials = exponentials,
    .scale = scale,
    .normalize = normalize,
    .normalize_sums = normalize_sums,
    .normalize_gradient = normalize_gradient,
    .softmax_gradient = softmax_gradient,
    .log_softmax_gradient = log_softmax_gradient,
    .transpose_2 = transpose_2,
    .transpose_4 = transpose_4,
    .philox_mask = philox_mask,
};

}  // namespace d5::onednn::own::D5_ISA
