// SPDX-License-Identifier: Apache-2.0
#include "d5/core/convert.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

double power_of_two(int exponent) {  // of the normal range
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

enum class Overflow { infinity, saturate };
enum class Special {
  ieee,  // the top exponent holds infinity and NaN
  fn,    // no infinity; all ones is NaN
  fnuz,  // no infinity, no negative zero; its pattern is the one NaN
  none   // neither infinity nor NaN
};

// A binary float of up to 16 bits. encode() rounds a double once, to nearest even. What overflows follows ONNX Cast
// with saturate = true for 8 bits (a finite value to the largest finite one; so goes infinity where the type has none,
// or to NaN for fnuz) and for 4 and 6 bits (the same, NaN to -0), and IEEE 754 for 16 bits.
template <int exponent_bits, int fraction_bits, int bias, Special special, Overflow overflow>
struct Narrow {
  static constexpr unsigned sign_bit = 1u << (exponent_bits + fraction_bits);
  static constexpr unsigned all_ones = sign_bit - 1;
  static constexpr unsigned infinity = all_ones & ~((1u << fraction_bits) - 1);
  static constexpr unsigned largest = special == Special::ieee ? infinity - 1
                                      : special == Special::fn ? all_ones - 1
                                                               : all_ones;
  static constexpr unsigned quiet_nan = special == Special::ieee ? infinity | (1u << (fraction_bits - 1)) : all_ones;

  static unsigned encode(double value) {
    const auto u = std::bit_cast<uint64_t>(value);
    const unsigned sign = (u >> 63) ? sign_bit : 0;
    const double magnitude = std::bit_cast<double>(u & ~(uint64_t{1} << 63));
    if (value != value) {
      if constexpr (special == Special::none || special == Special::fnuz) return sign_bit;
      return sign | quiet_nan;
    }
    if (magnitude == std::numeric_limits<double>::infinity()) {
      if constexpr (special == Special::fnuz) return sign_bit;
      if constexpr (special == Special::ieee) return sign | infinity;
    }
    // The grid's step is 2^(exponent - fraction_bits); adding and taking off 2^52 rounds to a whole number of steps.
    const int exponent = std::max(static_cast<int>((u >> 52) & 0x7ff) - 1023, 1 - bias);
    unsigned code = all_ones + 1;
    if (exponent <= bias + 1) {
      const double steps = magnitude * power_of_two(fraction_bits - exponent);
      constexpr double two_52 = 4503599627370496.0;
      code = static_cast<unsigned>(steps + two_52 - two_52) +
             (static_cast<unsigned>(exponent + bias - 1) << fraction_bits);
    }
    if (code > largest) code = overflow == Overflow::infinity ? infinity : largest;
    if (special == Special::fnuz && code == 0) return 0;
    return sign | code;
  }

  static double decode(unsigned code) {
    const unsigned magnitude = code & all_ones, fraction = magnitude & ((1u << fraction_bits) - 1);
    const int exponent = static_cast<int>(magnitude >> fraction_bits);
    double value;
    if ((special == Special::fn && magnitude == all_ones) || (special == Special::fnuz && code == sign_bit) ||
        (special == Special::ieee && magnitude > infinity))
      value = std::numeric_limits<double>::quiet_NaN();
    else if (special == Special::ieee && magnitude == infinity)
      value = std::numeric_limits<double>::infinity();
    else if (exponent == 0)
      value = fraction * power_of_two(1 - bias - fraction_bits);
    else
      value = ((1u << fraction_bits) + fraction) * power_of_two(exponent - bias - fraction_bits);
    return code & sign_bit ? -value : value;
  }
};
using NarrowF16 = Narrow<5, 10, 15, Special::ieee, Overflow::infinity>;
using NarrowBF16 = Narrow<8, 7, 127, Special::ieee, Overflow::infinity>;

// 64-bit integers to double, rounded to odd: a later rounding to 24 bits or fewer then gives what one rounding would
// (Boldo and Melquiond, 2008).
double to_double_odd(uint64_t magnitude) {
  const int surplus = 11 - std::countl_zero(magnitude | 1);
  if (surplus <= 0) return static_cast<double>(magnitude);
  const uint64_t lost = magnitude & ((uint64_t{1} << surplus) - 1);
  return static_cast<double>((magnitude >> surplus) | (lost ? 1 : 0)) * power_of_two(surplus);
}

template <class T>
T integer_from_double(double value) {  // towards zero, saturated
  if constexpr (std::is_same_v<T, bool>) return value != 0;
  constexpr double top = 2.0 * static_cast<double>(std::numeric_limits<T>::max() / 2 + 1);
  if (value >= top) return std::numeric_limits<T>::max();
  if (value > static_cast<double>(std::numeric_limits<T>::min()) - 1.0 ||
      value >= static_cast<double>(std::numeric_limits<T>::min()))
    return static_cast<T>(value);
  return value != value ? T{0} : std::numeric_limits<T>::min();
}

// How each element type is read and written at an index. Integers pass through Wide on their way to integers.
using Wide = __int128;

template <class T>
struct Plain {
  static constexpr bool integer = std::is_integral_v<T>;
  static T at(const void* data, int64_t i) { return static_cast<const T*>(data)[i]; }
  static double load(const void* data, int64_t i) { return static_cast<double>(at(data, i)); }
  static double load_odd(const void* data, int64_t i) {
    if constexpr (std::is_same_v<T, uint64_t>) return to_double_odd(at(data, i));
    if constexpr (std::is_same_v<T, int64_t>) {
      const T v = at(data, i);
      return v < 0 ? -to_double_odd(uint64_t{0} - static_cast<uint64_t>(v)) : to_double_odd(static_cast<uint64_t>(v));
    }
    return load(data, i);
  }
  static void store(void* data, int64_t i, double value) {
    T& to = static_cast<T*>(data)[i];
    if constexpr (std::is_integral_v<T>)
      to = integer_from_double<T>(value);
    else if constexpr (std::is_same_v<T, Half>)
      to.bits = static_cast<uint16_t>(NarrowF16::encode(value));
    else if constexpr (std::is_same_v<T, BFloat16>)
      to.bits = static_cast<uint16_t>(NarrowBF16::encode(value));
    else
      to = static_cast<T>(value);
  }
  static Wide load_wide(const void* data, int64_t i) { return static_cast<Wide>(at(data, i)); }
  static void store_wide(void* data, int64_t i, Wide value) {
    if constexpr (std::is_same_v<T, bool>)
      static_cast<T*>(data)[i] = value != 0;
    else
      static_cast<T*>(data)[i] =
          static_cast<T>(std::clamp<Wide>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
};

template <class Format>
struct Byte {
  static constexpr bool integer = false;
  static double load(const void* data, int64_t i) { return Format::decode(static_cast<const uint8_t*>(data)[i]); }
  static double load_odd(const void* data, int64_t i) { return load(data, i); }
  static void store(void* data, int64_t i, double v) {
    static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(Format::encode(v));
  }
};

// 2^(code - 127).
struct PowerOfTwo {
  static constexpr unsigned nan = 255, largest = 254;
  static unsigned encode(double value) {
    const auto u = std::bit_cast<uint64_t>(value);
    if (value != value) return nan;
    const int exponent = static_cast<int>((u >> 52) & 0x7ff) - 1023;
    const int up = (u >> 51) & 1 ? 1 : 0;  // 1.5 and more
    return static_cast<unsigned>(std::clamp(exponent + up + 127, 0, static_cast<int>(largest)));
  }
  static double decode(unsigned code) {
    return code == nan ? std::numeric_limits<double>::quiet_NaN() : power_of_two(static_cast<int>(code) - 127);
  }
};

// Elements of less than 8 bits follow each other without gaps, the first in the lowest bits; one of 6 bits may lie in
// two bytes.
template <int width>
struct Packed {
  static constexpr unsigned mask = (1u << width) - 1;
  static unsigned get(const void* data, int64_t i) {
    const uint8_t* bytes = static_cast<const uint8_t*>(data) + i * width / 8;
    const int shift = static_cast<int>(i * width % 8);
    unsigned word = bytes[0];
    if (shift + width > 8) word |= static_cast<unsigned>(bytes[1]) << 8;
    return (word >> shift) & mask;
  }
  static void set(void* data, int64_t i, unsigned value) {
    uint8_t* bytes = static_cast<uint8_t*>(data) + i * width / 8;
    const int shift = static_cast<int>(i * width % 8);
    bytes[0] = static_cast<uint8_t>((bytes[0] & ~(mask << shift)) | (value << shift));
    if (shift + width > 8)
      bytes[1] = static_cast<uint8_t>((bytes[1] & ~(mask >> (8 - shift))) | (value >> (8 - shift)));
  }
};

template <int width, class Format>
struct PackedFloat {
  static constexpr bool integer = false;
  static double load(const void* data, int64_t i) { return Format::decode(Packed<width>::get(data, i)); }
  static double load_odd(const void* data, int64_t i) { return load(data, i); }
  static void store(void* data, int64_t i, double value) { Packed<width>::set(data, i, Format::encode(value)); }
};

template <int width, bool is_signed>
struct PackedInteger {
  static constexpr int low = is_signed ? -(1 << (width - 1)) : 0, high = low + (1 << width) - 1;
  static constexpr bool integer = true;
  static Wide load_wide(const void* data, int64_t i) {
    const int value = static_cast<int>(Packed<width>::get(data, i));
    return value > high ? value - (1 << width) : value;
  }
  static void store_wide(void* data, int64_t i, Wide value) {
    const auto inside = static_cast<unsigned>(static_cast<int>(std::clamp<Wide>(value, low, high)));
    Packed<width>::set(data, i, inside & Packed<width>::mask);
  }
  static double load(const void* data, int64_t i) { return static_cast<double>(load_wide(data, i)); }
  static double load_odd(const void* data, int64_t i) { return load(data, i); }
  static void store(void* data, int64_t i, double value) { store_wide(data, i, integer_from_double<int64_t>(value)); }
};

template <class F>
decltype(auto) with_element(DType type, F&& f) {
  switch (type) {
    case DType::f64: return f.template operator()<Plain<double>>();
    case DType::f32: return f.template operator()<Plain<float>>();
    case DType::f16: return f.template operator()<Plain<Half>>();
    case DType::bf16: return f.template operator()<Plain<BFloat16>>();
    case DType::f8e4m3fn: return f.template operator()<Byte<Narrow<4, 3, 7, Special::fn, Overflow::saturate>>>();
    case DType::f8e4m3fnuz: return f.template operator()<Byte<Narrow<4, 3, 8, Special::fnuz, Overflow::saturate>>>();
    case DType::f8e5m2: return f.template operator()<Byte<Narrow<5, 2, 15, Special::ieee, Overflow::saturate>>>();
    case DType::f8e5m2fnuz: return f.template operator()<Byte<Narrow<5, 2, 16, Special::fnuz, Overflow::saturate>>>();
    case DType::f8e8m0: return f.template operator()<Byte<PowerOfTwo>>();
    case DType::f6e2m3:
      return f.template operator()<PackedFloat<6, Narrow<2, 3, 1, Special::none, Overflow::saturate>>>();
    case DType::f6e3m2:
      return f.template operator()<PackedFloat<6, Narrow<3, 2, 3, Special::none, Overflow::saturate>>>();
    case DType::f4e2m1:
      return f.template operator()<PackedFloat<4, Narrow<2, 1, 1, Special::none, Overflow::saturate>>>();
    case DType::i4: return f.template operator()<PackedInteger<4, true>>();
    case DType::u4: return f.template operator()<PackedInteger<4, false>>();
    case DType::i2: return f.template operator()<PackedInteger<2, true>>();
    case DType::u2: return f.template operator()<PackedInteger<2, false>>();
    case DType::i8: return f.template operator()<Plain<int8_t>>();
    case DType::i16: return f.template operator()<Plain<int16_t>>();
    case DType::i32: return f.template operator()<Plain<int32_t>>();
    case DType::i64: return f.template operator()<Plain<int64_t>>();
    case DType::u8: return f.template operator()<Plain<uint8_t>>();
    case DType::u16: return f.template operator()<Plain<uint16_t>>();
    case DType::u32: return f.template operator()<Plain<uint32_t>>();
    case DType::u64: return f.template operator()<Plain<uint64_t>>();
    case DType::boolean: return f.template operator()<Plain<bool>>();
    case DType::string: break;
  }
  throw Error("[convert] strings convert to no other element type, and none to them");
}

constexpr int64_t block = 1024;  // a multiple of 4: no two blocks share a byte of packed values

// Through a block of doubles (or of wide integers) in cache: 2 x 26 small loops instead of 26 x 26.
template <class Middle, class Load, class Store>
void through(int64_t first, int64_t last, Load load, Store store) {
  std::array<Middle, block> middle;
  for (int64_t start = first; start < last; start += block) {
    const int64_t count = std::min(block, last - start);
    load(start, count, middle.data());
    store(start, count, middle.data());
  }
}

bool is_whole(DType type) { return is_integer(type) || type == DType::boolean; }

void convert_range(DType from_type, const void* from, DType to_type, void* to, int64_t first, int64_t last) {
  if (is_whole(from_type) && is_whole(to_type)) {
    through<Wide>(
        first, last,
        [&](int64_t start, int64_t count, Wide* middle) {
          with_element(from_type, [&]<class E>() {
            if constexpr (E::integer)
              for (int64_t i = 0; i < count; ++i) middle[i] = E::load_wide(from, start + i);
          });
        },
        [&](int64_t start, int64_t count, const Wide* middle) {
          with_element(to_type, [&]<class E>() {
            if constexpr (E::integer)
              for (int64_t i = 0; i < count; ++i) E::store_wide(to, start + i, middle[i]);
          });
        });
    return;
  }
  through<double>(
      first, last,
      [&](int64_t start, int64_t count, double* middle) {
        with_element(from_type, [&]<class E>() {
          if (to_type == DType::f64)
            for (int64_t i = 0; i < count; ++i) middle[i] = E::load(from, start + i);
          else
            for (int64_t i = 0; i < count; ++i) middle[i] = E::load_odd(from, start + i);
        });
      },
      [&](int64_t start, int64_t count, const double* middle) {
        with_element(to_type, [&]<class E>() {
          for (int64_t i = 0; i < count; ++i) E::store(to, start + i, middle[i]);
        });
      });
}

// The pairs that carry real work go directly; the compiler vectorises these loops.
template <class From, class To>
void direct(const void* from, void* to, int64_t first, int64_t last) {
  const From* x = static_cast<const From*>(from);
  To* y = static_cast<To*>(to);
  for (int64_t i = first; i < last; ++i) y[i] = static_cast<To>(static_cast<float>(x[i]));
}

using Direct = void (*)(const void*, void*, int64_t, int64_t);
Direct direct_loop(DType from, DType to) {
  if (from == DType::f32) {
    if (to == DType::f64) return direct<float, double>;
    if (to == DType::f16) return direct<float, Half>;
    if (to == DType::bf16) return direct<float, BFloat16>;
  }
  if (to == DType::f32) {
    if (from == DType::f64) return direct<double, float>;
    if (from == DType::f16) return direct<Half, float>;
    if (from == DType::bf16) return direct<BFloat16, float>;
  }
  return nullptr;
}

}  // namespace

void convert(DType from_type, const void* from, DType to_type, void* to, int64_t elements) {
  if (from_type == DType::string || to_type == DType::string)
    throw Error("[convert] {} to {}: strings convert to no other element type, and none to them", name(from_type),
                name(to_type));
  constexpr int64_t grain = 64 * block;
  const int64_t blocks = (elements + block - 1) / block;
  const Direct loop = direct_loop(from_type, to_type);
  // What packed values leave of the last byte is always zero.
  if (elements * bits(to_type) % 8) static_cast<uint8_t*>(to)[elements * bits(to_type) / 8] = 0;
  parallel_for(blocks, grain / block, [&](int64_t first_block, int64_t last_block) {
    const int64_t first = first_block * block, last = std::min(last_block * block, elements);
    if (from_type == to_type)
      std::memcpy(static_cast<char*>(to) + storage_bytes(to_type, first),
                  static_cast<const char*>(from) + storage_bytes(to_type, first),
                  static_cast<size_t>(storage_bytes(to_type, last - first)));
    else if (loop)
      loop(from, to, first, last);
    else
      convert_range(from_type, from, to_type, to, first, last);
  });
}

double load_as_double(DType type, const void* data, int64_t index) {
  return with_element(type, [&]<class E>() { return E::load(data, index); });
}

void store_from_double(DType type, void* data, int64_t index, double value) {
  with_element(type, [&]<class E>() { E::store(data, index, value); });
}

}  // namespace d5
