// SPDX-License-Identifier: Apache-2.0
#include "d5/core/convert.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "d5/core/parallel.hpp"
#include "d5/core/rng.hpp"

namespace d5 {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double decoded(DType type, unsigned code) {
  const auto bits16 = static_cast<uint16_t>(code);
  const auto bits8 = static_cast<uint8_t>(code);
  return load_as_double(type, bits(type) == 16 ? static_cast<const void*>(&bits16) : &bits8, 0);
}
unsigned encoded(DType type, double value) {
  uint16_t code = 0;  // little-endian: the low byte comes first
  store_from_double(type, &code, 0, value);
  return code;
}
double rounded(DType type, double value) { return decoded(type, encoded(type, value)); }

struct Format {
  DType type;
  int exponent_bits, fraction_bits, bias;
  unsigned largest;  // its code
  double largest_value, smallest_value;
};
// Bias, largest and smallest value: ONNX, "Float stored in 8 bits", and "Float stored in 4 bits"; for 6 bits OCP's
// Microscaling Formats (MX), table 2 and 3; IEEE 754 for f16.
const Format formats[] = {
    {DType::f16, 5, 10, 15, 0x7bff, 65504, 0x1p-24}, {DType::bf16, 8, 7, 127, 0x7f7f, 0x1.fep127, 0x1p-133},
    {DType::f8e4m3fn, 4, 3, 7, 0x7e, 448, 0x1p-9},   {DType::f8e4m3fnuz, 4, 3, 8, 0x7f, 240, 0x1p-10},
    {DType::f8e5m2, 5, 2, 15, 0x7b, 57344, 0x1p-16}, {DType::f8e5m2fnuz, 5, 2, 16, 0x7f, 57344, 0x1p-17},
    {DType::f4e2m1, 2, 1, 1, 0x7, 6, 0.5},           {DType::f6e2m3, 2, 3, 1, 0x1f, 7.5, 0.125},
    {DType::f6e3m2, 3, 2, 3, 0x1f, 28, 0.0625},
};

class NarrowFloat : public testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(Convert, NarrowFloat, testing::ValuesIn(formats),
                         [](const auto& info) { return std::string(name(info.param.type)); });

// (-1)^S 2^(e - bias) (1 + f / 2^n), and 2^(1 - bias) f / 2^n where e is 0.
TEST_P(NarrowFloat, EveryFiniteCodeHasItsValueAndComesBack) {
  const Format& f = GetParam();
  const unsigned sign = 1u << (f.exponent_bits + f.fraction_bits);
  EXPECT_EQ(decoded(f.type, f.largest), f.largest_value);
  EXPECT_EQ(decoded(f.type, 1), f.smallest_value);
  for (unsigned code = 0; code <= f.largest; ++code) {
    const int e = static_cast<int>(code >> f.fraction_bits),
              fraction = static_cast<int>(code & ((1u << f.fraction_bits) - 1));
    const double value = e == 0 ? std::ldexp(fraction, 1 - f.bias - f.fraction_bits)
                                : std::ldexp((1 << f.fraction_bits) + fraction, e - f.bias - f.fraction_bits);
    ASSERT_EQ(decoded(f.type, code), value) << code;
    ASSERT_EQ(encoded(f.type, value), code);
    if (code == 0 && (f.type == DType::f8e4m3fnuz || f.type == DType::f8e5m2fnuz)) continue;  // no negative zero
    ASSERT_EQ(decoded(f.type, code | sign), -value) << code;
    ASSERT_EQ(encoded(f.type, -value), code | sign);
  }
}

// Every middle of two neighbours goes to the even code; the doubles next to it to their own side. A conversion that
// goes through float fails here, because those doubles round to the middle first.
TEST_P(NarrowFloat, RoundsOnceToNearestEven) {
  const Format& f = GetParam();
  for (unsigned code = 0; code < f.largest; ++code) {
    const double low = decoded(f.type, code), high = decoded(f.type, code + 1), middle = (low + high) / 2;
    ASSERT_EQ(encoded(f.type, middle), code % 2 ? code + 1 : code) << code;
    ASSERT_EQ(encoded(f.type, std::nextafter(middle, low)), code);
    ASSERT_EQ(encoded(f.type, std::nextafter(middle, high)), code + 1);
  }
  EXPECT_EQ(rounded(f.type, std::numeric_limits<double>::denorm_min()), 0.0);
}

TEST(Convert, OverflowOfHalves) {
  EXPECT_EQ(encoded(DType::f16, 65520), 0x7c00u);
  EXPECT_EQ(encoded(DType::f16, std::nextafter(65520, 0)), 0x7bffu);
  EXPECT_EQ(encoded(DType::f16, -1e300), 0xfc00u);
  EXPECT_EQ(encoded(DType::bf16, 1e300), 0x7f80u);
  EXPECT_EQ(encoded(DType::bf16, std::numeric_limits<float>::max()), 0x7f80u);
  EXPECT_TRUE(std::isnan(rounded(DType::f16, NAN)) && std::isnan(rounded(DType::bf16, NAN)));
  EXPECT_EQ(rounded(DType::f16, -infinity), -infinity);
}

// ONNX, "Float stored in 8 bits", the table of Cast with saturation; "Float stored in 4 bits" and "... in 6 bits",
// whose word on NaN is what ONNX's node tests hold for both.
TEST(Convert, OverflowOfSmallFloatsFollowsOnnxCast) {
  for (const Format& f : formats) {
    if (bits(f.type) > 8) continue;
    const bool unsigned_zero = f.type == DType::f8e4m3fnuz || f.type == DType::f8e5m2fnuz;
    for (const double huge : {f.largest_value * 1.2, 1e10, 1e300}) {
      EXPECT_EQ(rounded(f.type, huge), f.largest_value) << name(f.type);
      EXPECT_EQ(rounded(f.type, -huge), -f.largest_value) << name(f.type);
    }
    EXPECT_EQ(std::signbit(rounded(f.type, -0.0)), !unsigned_zero) << name(f.type);
    if (unsigned_zero) {
      EXPECT_EQ(encoded(f.type, infinity), 0x80u);
      EXPECT_EQ(encoded(f.type, -infinity), 0x80u);
      EXPECT_EQ(encoded(f.type, -f.smallest_value / 4), 0u);
    } else {
      const double most = f.type == DType::f8e5m2 ? infinity : f.largest_value;  // it can be stored there
      EXPECT_EQ(rounded(f.type, infinity), most) << name(f.type);
      EXPECT_EQ(rounded(f.type, -infinity), -most) << name(f.type);
    }
    if (bits(f.type) < 8)
      EXPECT_TRUE(rounded(f.type, NAN) == 0 && std::signbit(rounded(f.type, NAN))) << name(f.type);
    else
      EXPECT_TRUE(std::isnan(rounded(f.type, NAN))) << name(f.type);
  }
}

TEST(Convert, SpecialCodesOfSmallFloats) {
  EXPECT_TRUE(std::isnan(decoded(DType::f8e4m3fn, 0x7f)) && std::isnan(decoded(DType::f8e4m3fn, 0xff)));
  EXPECT_TRUE(std::isnan(decoded(DType::f8e4m3fnuz, 0x80)) && std::isnan(decoded(DType::f8e5m2fnuz, 0x80)));
  EXPECT_EQ(decoded(DType::f8e5m2, 0x7c), infinity);
  EXPECT_EQ(decoded(DType::f8e5m2, 0xfc), -infinity);
  for (unsigned code : {0x7d, 0x7e, 0x7f, 0xfd}) EXPECT_TRUE(std::isnan(decoded(DType::f8e5m2, code)));
}

TEST(Convert, PowersOfTwo) {
  for (unsigned code = 0; code < 255; ++code) {
    const double value = std::ldexp(1, static_cast<int>(code) - 127);
    ASSERT_EQ(decoded(DType::f8e8m0, code), value);
    ASSERT_EQ(encoded(DType::f8e8m0, value), code);
    if (code < 254) {
      ASSERT_EQ(encoded(DType::f8e8m0, 1.5 * value), code + 1) << "a tie goes up";
      ASSERT_EQ(encoded(DType::f8e8m0, std::nextafter(1.5 * value, 0)), code);
    }
  }
  EXPECT_TRUE(std::isnan(decoded(DType::f8e8m0, 255)) && std::isnan(rounded(DType::f8e8m0, NAN)));
  EXPECT_EQ(rounded(DType::f8e8m0, 0), 0x1p-127);
  EXPECT_EQ(rounded(DType::f8e8m0, infinity), 0x1p127);
}

// ONNX, TensorProto.raw_data: x0 | x1 << 2 | x2 << 4 | x3 << 6, and four 6-bit values in three bytes, first one lowest.
TEST(Convert, PackedValuesHaveNoGaps) {
  const Tensor twos = Tensor::from<int8_t>({5}, {1, -2, 0, -1, 7}).cast(DType::i2);
  const auto* bytes = static_cast<const uint8_t*>(twos.data());
  EXPECT_EQ(bytes[0], 1 | 2 << 2 | 0 << 4 | 3 << 6);
  EXPECT_EQ(bytes[1], 1);  // saturated; the rest of the byte is zero
  EXPECT_EQ(twos.cast(DType::i8).values<int8_t>()[3], -1);
  const Tensor six = Tensor::from<double>({5}, {0.125, -0.125, 7.5, -7.5, 1}).cast(DType::f6e2m3);
  const unsigned codes[] = {1, 0x21, 0x1f, 0x3f, 8};
  bytes = static_cast<const uint8_t*>(six.data());
  EXPECT_EQ(bytes[0], codes[0] | (codes[1] & 3) << 6);
  EXPECT_EQ(bytes[1], codes[1] >> 2 | (codes[2] & 15) << 4);
  EXPECT_EQ(bytes[2], codes[2] >> 4 | codes[3] << 2);
  EXPECT_EQ(bytes[3], codes[4]);
  EXPECT_EQ(load_as_double(DType::f6e2m3, six.data(), 3), -7.5);
}

template <class To, class From>
To one(From value) {
  return Tensor::from<From>({}, {value}).cast(dtype_of<To>::value).template values<To>()[0];
}

TEST(Convert, FloatsToIntegersDropFractionsAndSaturate) {
  EXPECT_EQ((one<int8_t, float>(-1.9f)), -1);
  EXPECT_EQ((one<int8_t, float>(127.9f)), 127);
  EXPECT_EQ((one<int8_t, double>(-128.9)), -128);
  EXPECT_EQ((one<int8_t, double>(-129)), -128);
  EXPECT_EQ((one<uint8_t, float>(-0.5f)), 0);
  EXPECT_EQ((one<uint8_t, float>(256)), 255);
  EXPECT_EQ((one<int32_t, float>(NAN)), 0);
  EXPECT_EQ((one<int64_t, double>(0x1p63)), INT64_MAX);
  EXPECT_EQ((one<int64_t, double>(-0x1p63)), INT64_MIN);
  EXPECT_EQ((one<int64_t, double>(-infinity)), INT64_MIN);
  EXPECT_EQ((one<uint64_t, double>(0x1p64)), UINT64_MAX);
  EXPECT_EQ((one<uint64_t, double>(0x1.fffffffffffffp63)), 0xfffffffffffff800u);
  EXPECT_EQ((one<int64_t, double>(9007199254740993.0)), 9007199254740992);
  EXPECT_EQ((one<bool, float>(0.25f)), true);
  EXPECT_EQ((one<bool, float>(-0.0f)), false);
}

TEST(Convert, IntegersToIntegersAreExactOrSaturate) {
  EXPECT_EQ((one<uint64_t, int64_t>(-5)), 0u);
  EXPECT_EQ((one<int64_t, uint64_t>(UINT64_MAX)), INT64_MAX);
  EXPECT_EQ((one<uint64_t, int64_t>(INT64_MAX)), uint64_t{INT64_MAX});
  EXPECT_EQ((one<int8_t, int32_t>(300)), 127);
  EXPECT_EQ((one<bool, int64_t>(int64_t{1} << 40)), true);
  EXPECT_EQ((one<int16_t, bool>(true)), 1);
}

// 2^60 + 2^36 is the middle of two floats; the 1 above it is lost where the way leads through a rounded double.
TEST(Convert, LargeIntegersToFloatsRoundOnce) {
  const int64_t v = (int64_t{1} << 60) + (int64_t{1} << 36) + 1;
  EXPECT_EQ((one<float, int64_t>(v)), 0x1.000002p60f);
  EXPECT_EQ((one<float, int64_t>(v - 1)), 0x1p60f);
  EXPECT_EQ((one<float, int64_t>(-v)), -0x1.000002p60f);
  EXPECT_EQ((one<float, uint64_t>(UINT64_MAX)), 0x1p64f);
  EXPECT_EQ((one<float, int64_t>(INT64_MIN)), -0x1p63f);
  EXPECT_EQ((one<double, int64_t>((int64_t{1} << 53) + 1)), 0x1p53);
  EXPECT_EQ((one<double, int64_t>((int64_t{1} << 53) + 3)), 0x1p53 + 4);
  const int64_t w = (int64_t{1} << 60) + (int64_t{1} << 52) + 1;  // the same for the 8 bits of bf16
  EXPECT_EQ(static_cast<float>(one<BFloat16, int64_t>(w)), 0x1.02p60f);
  EXPECT_EQ(static_cast<float>(one<BFloat16, int64_t>(w - 1)), 0x1p60f);
  for (int64_t i = 0; i < 1000; ++i) {  // the compiler's conversion rounds once
    const auto x = static_cast<int64_t>(Rng(7).bits(static_cast<uint64_t>(i)));
    ASSERT_EQ((one<float, int64_t>(x)), static_cast<float>(x));
  }
}

TEST(Convert, FourBitValuesArePackedLowHalfFirst) {
  const auto wide = Tensor::from<int32_t>({5}, {1, -2, 7, -8, 100});
  const Tensor packed = wide.cast(DType::i4);
  const auto* bytes = static_cast<const uint8_t*>(packed.data());
  EXPECT_EQ(bytes[0], 0xe1);
  EXPECT_EQ(bytes[1], 0x87);
  EXPECT_EQ(bytes[2], 0x07);  // saturated; the half byte left over is zero
  EXPECT_THAT(packed.cast(DType::i64).values<int64_t>(), testing::ElementsAre(1, -2, 7, -8, 7));
  EXPECT_THAT(packed.cast(DType::f32).values<float>(), testing::ElementsAre(1, -2, 7, -8, 7));
  EXPECT_THAT(wide.cast(DType::u4).cast(DType::u8).values<uint8_t>(), testing::ElementsAre(1, 0, 7, 0, 15));
  const auto f4 = Tensor::from<float>({3}, {-6, 0.5, 2.5}).cast(DType::f4e2m1);
  EXPECT_EQ(static_cast<const uint8_t*>(f4.data())[0], 0x1f);
  EXPECT_THAT(f4.cast(DType::f64).values<double>(), testing::ElementsAre(-6, 0.5, 2));
}

TEST(Convert, StoringANibbleLeavesItsNeighbour) {
  uint8_t byte = 0xab;
  store_from_double(DType::u4, &byte, 0, 3);
  EXPECT_EQ(byte, 0xa3);
  store_from_double(DType::i4, &byte, 1, -1);
  EXPECT_EQ(byte, 0xf3);
  EXPECT_EQ(load_as_double(DType::i4, &byte, 1), -1);
  EXPECT_EQ(load_as_double(DType::u4, &byte, 1), 15);
}

TEST(Convert, StringsConvertToNothing) {
  float x = 0;
  std::string text;
  EXPECT_THROW(convert(DType::string, &text, DType::f32, &x, 1), Error);
  EXPECT_THROW(convert(DType::f32, &x, DType::string, &text, 1), Error);
  EXPECT_THROW(load_as_double(DType::string, &text, 0), Error);
}

// The fast loops and the block loops, on several threads, against one value at a time.
TEST(Convert, ArraysAgreeWithSingleValues) {
  set_threads(3);
  constexpr Index n = 200'001;
  const Tensor f64(DType::f64, {n});
  fill_normal(f64, Rng(3), 0, 100);
  for (const std::string& from_name : dtype_names()) {
    const DType from = parse_dtype(from_name);
    if (from == DType::string) continue;
    const Tensor x = f64.cast(from);
    for (const std::string& to_name : dtype_names()) {
      const DType to = parse_dtype(to_name);
      if (to == DType::string) continue;
      const Tensor y = x.cast(to);
      const Tensor single(to, {1});
      single.fill_bytes(0);
      for (Index i = 0; i < n; i += i < 5000 ? 1 : 997) {
        store_from_double(to, single.data(), 0, load_as_double(from, x.data(), i));
        const double expected = load_as_double(to, single.data(), 0), got = load_as_double(to, y.data(), i);
        ASSERT_TRUE(expected == got || (expected != expected && got != got))
            << from_name << " to " << to_name << " at " << i;
      }
    }
  }
  set_threads(1);
}

}  // namespace
}  // namespace d5
