// SPDX-License-Identifier: Apache-2.0
// Whole vectors of channels keep their sums and parameters in registers while rows go by; what is left of a block goes
// one channel at a time.
#include <type_traits>

#include "d5/backends/onednn/own/channel_loops.hpp"
#include "d5/backends/onednn/own/loops/math.hpp"

namespace d5::onednn::own::D5_ISA {
namespace {

constexpr int64_t lanes = __BIGGEST_ALIGNMENT__ / sizeof(float);  // of one register of this instruction set
typedef float Vector __attribute__((vector_size(__BIGGEST_ALIGNMENT__)));
typedef float Anywhere __attribute__((vector_size(__BIGGEST_ALIGNMENT__), aligned(4), may_alias));
typedef int32_t Mask __attribute__((vector_size(__BIGGEST_ALIGNMENT__)));

D5_INLINE Vector load(const float* p) { return *reinterpret_cast<const Anywhere*>(p); }
D5_INLINE void store(float* p, Vector v) { *reinterpret_cast<Anywhere*>(p) = v; }
D5_INLINE Vector where_positive(Vector sign, Vector x) {
  const Mask positive = sign > Vector{};
  return reinterpret_cast<Vector>(reinterpret_cast<Mask>(x) & positive);
}

D5_INLINE Vector without_negative(Vector x) {  // what is no number stays
  const Mask negative = x < Vector{};
  return reinterpret_cast<Vector>(reinterpret_cast<Mask>(x) & ~negative);
}

// One vector, or one number: the same code for both.
struct Wide {
  using Type = Vector;
  D5_INLINE static Vector get(const float* p) { return load(p); }
  D5_INLINE static void put(float* p, Vector v) { store(p, v); }
  D5_INLINE static Vector masked(Vector sign, Vector x) { return where_positive(sign, x); }
  D5_INLINE static Vector rectified(Vector x) { return without_negative(x); }
};
struct Single {
  using Type = float;
  D5_INLINE static float get(const float* p) { return *p; }
  D5_INLINE static void put(float* p, float v) { *p = v; }
  D5_INLINE static float masked(float sign, float x) { return sign > 0.0f ? x : 0.0f; }
  D5_INLINE static float rectified(float x) { return x < 0.0f ? 0.0f : x; }
};

// f.template operator()<Kind, count>(offset): blocks of vectors as long as there are any, then single channels.
template <class F>
D5_INLINE void in_blocks(int64_t n, const F& f) {
  int64_t at = 0;
  for (; at + 4 * lanes <= n; at += 4 * lanes) f.template operator()<Wide, 4>(at);
  if (at + 2 * lanes <= n) {
    f.template operator()<Wide, 2>(at);
    at += 2 * lanes;
  }
  if (at + lanes <= n) {
    f.template operator()<Wide, 1>(at);
    at += lanes;
  }
  for (; at < n; ++at) f.template operator()<Single, 1>(at);
}
template <class Kind>
constexpr int64_t width = std::is_same_v<Kind, Wide> ? lanes : 1;

void moments(ChannelRows r, const float* x, const float* origin, float* sums, float* squares) {
  in_blocks(r.n, [&]<class Kind, int count>(int64_t at) {
    using T = typename Kind::Type;
    constexpr int rounds = count == 1 ? 4 : count == 2 ? 2 : 1;  // independent sums hide the latency of additions
    T from[count], sum[rounds][count] = {}, square[rounds][count] = {};
    for (int v = 0; v < count; ++v) from[v] = Kind::get(origin + at + v * width<Kind>);
    const float* row = x + at;
    int64_t i = 0;
    for (; i + rounds <= r.rows; i += rounds, row += rounds * r.stride)
      for (int k = 0; k < rounds; ++k)
        for (int v = 0; v < count; ++v) {
          const T d = Kind::get(row + k * r.stride + v * width<Kind>) - from[v];
          sum[k][v] += d;
          square[k][v] += d * d;
        }
    for (; i < r.rows; ++i, row += r.stride)
      for (int v = 0; v < count; ++v) {
        const T d = Kind::get(row + v * width<Kind>) - from[v];
        sum[0][v] += d;
        square[0][v] += d * d;
      }
    for (int v = 0; v < count; ++v) {
      for (int k = 1; k < rounds; ++k) {
        sum[0][v] += sum[k][v];
        square[0][v] += square[k][v];
      }
      float *to = sums + at + v * width<Kind>, *to_squares = squares + at + v * width<Kind>;
      Kind::put(to, Kind::get(to) + sum[0][v]);
      Kind::put(to_squares, Kind::get(to_squares) + square[0][v]);
    }
  });
}

template <bool has_more, bool relu>
void normalize_rows(ChannelRows r, float* y, const float* x, const float* more, const float* mean, const float* factor,
                    const float* shift) {
  in_blocks(r.n, [&]<class Kind, int count>(int64_t at) {
    using T = typename Kind::Type;
    T m[count], f[count], s[count];
    for (int v = 0; v < count; ++v) {
      m[v] = Kind::get(mean + at + v * width<Kind>);
      f[v] = Kind::get(factor + at + v * width<Kind>);
      s[v] = Kind::get(shift + at + v * width<Kind>);
    }
    for (int64_t i = 0; i < r.rows; ++i)
      for (int v = 0; v < count; ++v) {
        const int64_t place = i * r.stride + at + v * width<Kind>;
        T result = (Kind::get(x + place) - m[v]) * f[v] + s[v];
        if (has_more) result += Kind::get(more + place);
        if (relu) result = Kind::rectified(result);
        Kind::put(y + place, result);
      }
  });
}

void normalize(ChannelRows r, float* y, const float* x, const float* more, const float* mean, const float* factor,
               const float* shift, bool relu) {
  if (more)
    return relu ? normalize_rows<true, true>(r, y, x, more, mean, factor, shift)
                : normalize_rows<true, false>(r, y, x, more, mean, factor, shift);
  return relu ? normalize_rows<false, true>(r, y, x, more, mean, factor, shift)
              : normalize_rows<false, false>(r, y, x, more, mean, factor, shift);
}

enum class Rectified { no, by_x, by_sign };

// g at one place; x - mean comes in as `d`.
template <class Kind, int summands, Rectified rectified, bool stores, class T = typename Kind::Type>
D5_INLINE T slope(const ChannelLoops::Slopes& s, int64_t place, T d, T factor, T shift) {
  T g = Kind::get(s.dy[0] + place);
  for (int k = 1; k < summands; ++k) g += Kind::get(s.dy[k] + place);
  if (rectified == Rectified::by_x) g = Kind::masked(d * factor + shift, g);
  if (rectified == Rectified::by_sign) g = Kind::masked(Kind::get(s.sign + place), g);
  if (stores) Kind::put(s.g + place, g);
  return g;
}

template <int summands, Rectified rectified, bool stores>
void sum_slopes(ChannelRows r, const ChannelLoops::Slopes& s, float* sums, float* products) {
  in_blocks(r.n, [&]<class Kind, int count>(int64_t at) {
    using T = typename Kind::Type;
    constexpr int rounds = count == 1 ? 2 : 1;
    T m[count], f[count], shift[count], sum[rounds][count] = {}, product[rounds][count] = {};
    for (int v = 0; v < count; ++v) {
      m[v] = Kind::get(s.mean + at + v * width<Kind>);
      f[v] = Kind::get(s.factor + at + v * width<Kind>);
      shift[v] = Kind::get(s.shift + at + v * width<Kind>);
    }
    const auto take = [&](int64_t i, int k) {
      for (int v = 0; v < count; ++v) {
        const int64_t place = i * r.stride + at + v * width<Kind>;
        const T d = Kind::get(s.x + place) - m[v];
        const T g = slope<Kind, summands, rectified, stores>(s, place, d, f[v], shift[v]);
        sum[k][v] += g;
        product[k][v] += g * d;
      }
    };
    int64_t i = 0;
    for (; i + rounds <= r.rows; i += rounds)
      for (int k = 0; k < rounds; ++k) take(i + k, k);
    for (; i < r.rows; ++i) take(i, 0);
    for (int v = 0; v < count; ++v) {
      for (int k = 1; k < rounds; ++k) {
        sum[0][v] += sum[k][v];
        product[0][v] += product[k][v];
      }
      float *to = sums + at + v * width<Kind>, *to_products = products + at + v * width<Kind>;
      Kind::put(to, Kind::get(to) + sum[0][v]);
      Kind::put(to_products, Kind::get(to_products) + product[0][v]);
    }
  });
}

template <int summands, Rectified rectified>
void write_gradient(ChannelRows r, const ChannelLoops::Slopes& s, float* dx, const float* a, const float* b) {
  in_blocks(r.n, [&]<class Kind, int count>(int64_t at) {
    using T = typename Kind::Type;
    T m[count], f[count], shift[count], of_a[count], of_b[count];
    for (int v = 0; v < count; ++v) {
      m[v] = Kind::get(s.mean + at + v * width<Kind>);
      f[v] = Kind::get(s.factor + at + v * width<Kind>);
      shift[v] = Kind::get(s.shift + at + v * width<Kind>);
      of_a[v] = Kind::get(a + at + v * width<Kind>);
      of_b[v] = Kind::get(b + at + v * width<Kind>);
    }
    for (int64_t i = 0; i < r.rows; ++i)
      for (int v = 0; v < count; ++v) {
        const int64_t place = i * r.stride + at + v * width<Kind>;
        const T d = Kind::get(s.x + place) - m[v];
        const T g = slope<Kind, summands, rectified, false>(s, place, d, f[v], shift[v]);
        Kind::put(dx + place, f[v] * (g - of_a[v] - d * of_b[v]));
      }
  });
}

Rectified kind_of(const ChannelLoops::Slopes& s) {
  return s.sign ? Rectified::by_sign : s.relu ? Rectified::by_x : Rectified::no;
}

// f.template operator()<summands>()
template <class F>
D5_INLINE void with_count(int64_t count, const F& f) {
  switch (count) {
    case 1: return f.template operator()<1>();
    case 2: return f.template operator()<2>();
    case 3: return f.template operator()<3>();
    default: return f.template operator()<4>();
  }
}

void gradient_sums(ChannelRows r, const ChannelLoops::Slopes& s, float* sums, float* products) {
  with_count(s.count, [&]<int summands>() {
    switch (kind_of(s)) {
      case Rectified::no:
        return s.g ? sum_slopes<summands, Rectified::no, true>(r, s, sums, products)
                   : sum_slopes<summands, Rectified::no, false>(r, s, sums, products);
      case Rectified::by_x:
        return s.g ? sum_slopes<summands, Rectified::by_x, true>(r, s, sums, products)
                   : sum_slopes<summands, Rectified::by_x, false>(r, s, sums, products);
      case Rectified::by_sign:
        return s.g ? sum_slopes<summands, Rectified::by_sign, true>(r, s, sums, products)
                   : sum_slopes<summands, Rectified::by_sign, false>(r, s, sums, products);
    }
  });
}

void gradient(ChannelRows r, const ChannelLoops::Slopes& s, float* dx, const float* a, const float* b) {
  with_count(s.count, [&]<int summands>() {
    switch (kind_of(s)) {
      case Rectified::no: return write_gradient<summands, Rectified::no>(r, s, dx, a, b);
      case Rectified::by_x: return write_gradient<summands, Rectified::by_x>(r, s, dx, a, b);
      case Rectified::by_sign: return write_gradient<summands, Rectified::by_sign>(r, s, dx, a, b);
    }
  });
}

}  // namespace

extern const ChannelLoops channel_table;
const ChannelLoops channel_table = {moments, normalize, gradient_sums, gradient};

}  // namespace d5::onednn::own::D5_ISA
