// SPDX-License-Identifier: Apache-2.0
#include "d5/core/dtype.hpp"

#include <gmock/gmock.h>

#include <cmath>

namespace d5 {
namespace {

TEST(DType, NamesGoBothWays) {
  EXPECT_EQ(dtype_names().size(), static_cast<size_t>(DType::string) + 1);
  for (const std::string& text : dtype_names()) EXPECT_EQ(name(parse_dtype(text)), text);
  EXPECT_EQ(parse_dtype("bf16"), DType::bf16);
  EXPECT_EQ(parse_dtype("bool"), DType::boolean);
  EXPECT_THROW(parse_dtype("float33"), UsageError);
}

TEST(DType, SizesInBytes) {
  EXPECT_EQ(storage_bytes(DType::f32, 5), 20);
  EXPECT_EQ(storage_bytes(DType::i4, 5), 3);
  EXPECT_EQ(storage_bytes(DType::f4e2m1, 0), 0);
  EXPECT_EQ(storage_bytes(DType::f6e3m2, 5), 4);
  EXPECT_EQ(storage_bytes(DType::u2, 5), 2);
  EXPECT_EQ(storage_bytes(DType::boolean, 7), 7);
  EXPECT_THROW(storage_bytes(DType::f64, int64_t{1} << 60), Error);
}

TEST(DType, Kinds) {
  EXPECT_TRUE(is_float(DType::f8e5m2) && is_float(DType::f4e2m1) && !is_float(DType::i8));
  EXPECT_TRUE(is_integer(DType::u4) && !is_integer(DType::boolean) && !is_integer(DType::string) &&
              !is_integer(DType::f16));
  EXPECT_EQ(compute_dtype(DType::f8e4m3fn), DType::f64);
  EXPECT_EQ(compute_dtype(DType::i4), DType::i8);
  EXPECT_EQ(compute_dtype(DType::u4), DType::u8);
  EXPECT_EQ(compute_dtype(DType::i2), DType::i8);
  EXPECT_EQ(compute_dtype(DType::f8e8m0), DType::f64);
  EXPECT_EQ(compute_dtype(DType::i64), DType::i64);
  EXPECT_THROW(with_compute_type(DType::string, []<class T>() {}), Error);
  EXPECT_EQ(with_compute_type(DType::bf16, []<class T>() { return sizeof(T); }), sizeof(double));
}

// IEEE 754: u = 2^-p with p the precision in bits.
TEST(DType, RoundOff) {
  EXPECT_EQ(round_off(DType::f64), 0x1p-53);
  EXPECT_EQ(round_off(DType::f32), 0x1p-24);
  EXPECT_EQ(round_off(DType::f16), 0x1p-11);
  EXPECT_EQ(round_off(DType::bf16), 0x1p-8);
  EXPECT_EQ(round_off(DType::f8e4m3fn), 0x1p-4);
  EXPECT_EQ(round_off(DType::i32), 0.0);
}

template <class T>
T from_bits(unsigned bits) {
  T value;
  value.bits = static_cast<uint16_t>(bits);
  return value;
}

// All patterns: to float against the definition by ldexp, and back to the same bits.
TEST(Half, EveryPatternRoundTrips) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = from_bits<Half>(bits);
    const int exponent = static_cast<int>(bits >> 10) & 31, fraction = static_cast<int>(bits & 1023);
    const float value = half;
    if (exponent == 31 && fraction != 0) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(Half(value)))) << bits;
      continue;
    }
    const double magnitude = exponent == 31  ? INFINITY
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(value, bits & 0x8000 ? -magnitude : magnitude) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(Half(value).bits, bits);
  }
}

TEST(BFloat16, EveryPatternRoundTrips) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = from_bits<BFloat16>(bits);
    if (std::isnan(value)) {
      ASSERT_TRUE((bits & 0x7f80) == 0x7f80 && (bits & 0x7f) != 0);
      ASSERT_TRUE(std::isnan(static_cast<float>(BFloat16(value)))) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
      ASSERT_EQ(BFloat16(value).bits, bits);
    }
  }
}

// Between neighbours a and b the middle goes to the even one, and the floats beside the middle to their own side.
template <class T>
void check_every_middle(unsigned infinity) {
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    const float low = from_bits<T>(bits), high = from_bits<T>(bits + 1);
    const float middle = static_cast<float>((static_cast<double>(low) + high) / 2);
    const unsigned even = bits % 2 ? bits + 1 : bits;
    ASSERT_EQ(T(middle).bits, even) << bits;
    ASSERT_EQ(T(-middle).bits, even | 0x8000) << bits;
    ASSERT_EQ(T(std::nextafter(middle, low)).bits, bits);
    ASSERT_EQ(T(std::nextafter(middle, high)).bits, bits + 1);
  }
}
TEST(Half, EveryMiddleGoesToEven) { check_every_middle<Half>(0x7c00); }
TEST(BFloat16, EveryMiddleGoesToEven) { check_every_middle<BFloat16>(0x7f80); }

TEST(Half, KnownRoundings) {
  EXPECT_EQ(Half(1.0f).bits, 0x3c00);
  EXPECT_EQ(Half(65504.0f).bits, 0x7bff);  // the largest
  EXPECT_EQ(Half(65519.996f).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);  // the middle to 65536: even, so infinity
  EXPECT_EQ(Half(-1e30f).bits, 0xfc00);
  EXPECT_EQ(Half(0x1p-24f).bits, 0x0001);  // the smallest subnormal
  EXPECT_EQ(Half(0x1p-25f).bits, 0x0000);  // half of it: even
  EXPECT_EQ(Half(0x1.000002p-25f).bits, 0x0001);
  EXPECT_EQ(Half(-0x1p-149f).bits, 0x8000);
  EXPECT_EQ(Half(0x1.ffcp-15f).bits, 0x0400);  // rounds from subnormal to the smallest normal
  EXPECT_EQ(Half(0.1f).bits, 0x2e66);
  EXPECT_EQ(Half(INFINITY).bits, 0x7c00);
  EXPECT_EQ(Half(NAN).bits & 0x7e00, 0x7e00);
}

TEST(BFloat16, KnownRoundings) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(3.14159265f).bits, 0x4049);
  EXPECT_EQ(BFloat16(1.00390625f).bits, 0x3f80);  // 1 + 2^-8: a tie, to even
  EXPECT_EQ(BFloat16(1.01171875f).bits, 0x3f82);  // 1 + 3 2^-8: a tie, to even
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(BFloat16(-INFINITY).bits, 0xff80);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x7f800001u)).bits, 0x7fc0);  // a NaN whose payload is cut off stays NaN
}

}  // namespace
}  // namespace d5
