// SPDX-License-Identifier: Apache-2.0
// The inner loops of onednn's own kernels, in every instruction set that this processor can run: elementary functions
// over a dense sweep of floats against double, conversions against core's, sums, transposition and random numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "d5/backends/onednn/own/loops.hpp"
#include "d5/core/dtype.hpp"
#include "d5/core/rng.hpp"
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
namespace {

std::vector<const Loops*> usable_loops() {
  std::vector<const Loops*> all{&baseline::table};
#if defined(__x86_64__)
  const Isa& isa = usable_isa();
  if (isa.avx2 && isa.fma && isa.f16c) all.push_back(&avx2::table);
  if (isa.avx512f && isa.avx512bw && isa.avx512dq && isa.avx512vl) all.push_back(&avx512::table);
#endif
  return all;
}

const TileFunctions* row_of(const Loops& loops, std::string_view op) {
  for (const Loops::Table& table : loops.functions)
    for (size_t i = 0; i < table.count; ++i)
      if (op == table.rows[i].op) return &table.rows[i];
  return nullptr;
}
TileFunction value_of(const Loops& loops, std::string_view op) {
  const TileFunctions* row = row_of(loops, op);
  return row ? row->value : nullptr;
}

class OwnLoops : public testing::TestWithParam<const Loops*> {};

struct Elementary {
  const char* op;
  double (*exact)(double);
  float low, high;
  double ulp;  // the largest error that math.hpp promises
};

double distance_in_ulp(float got, double wanted) {
  if (std::isnan(wanted)) return std::isnan(got) ? 0 : INFINITY;
  if (static_cast<double>(got) == wanted) return 0;
  if (std::abs(wanted) > std::numeric_limits<float>::max()) return std::isinf(got) ? 0 : INFINITY;
  const double error = std::abs(static_cast<double>(got) - wanted);
  if (error <= 0x1p-126) return 0;  // below the smallest normal number results may be 0
  int exponent;
  std::frexp(wanted, &exponent);
  return error / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// Every 2053rd float of the range: all exponents, half a million values of each sign.
TEST_P(OwnLoops, ElementaryFunctionsAreAsExactAsPromised) {
  const float huge = std::numeric_limits<float>::max();
  const Elementary functions[] = {{"Exp", std::exp, -110, 100, 2},
                                  {"Log", std::log, 0, huge, 2},
                                  {"Tanh", std::tanh, -huge, huge, 4},
                                  {"Erf", std::erf, -huge, huge, 4},
                                  {"Sin", std::sin, -huge, huge, 3},
                                  {"Cos", std::cos, -huge, huge, 3},
                                  {"Tan", std::tan, -1e5f, 1e5f, 5},
                                  {"Asin", std::asin, -1, 1, 4},
                                  {"Acos", std::acos, -1, 1, 5},
                                  {"Atan", std::atan, -huge, huge, 4},
                                  {"Sinh", std::sinh, -90, 90, 4},
                                  {"Cosh", std::cosh, -90, 90, 4},
                                  {"Asinh", std::asinh, -huge, huge, 5},
                                  {"Acosh", std::acosh, 1, huge, 5},
                                  {"Atanh", std::atanh, -1, 1, 5},
                                  {"Sqrt", std::sqrt, 0, huge, 0.5},
                                  {"Floor", std::floor, -huge, huge, 0},
                                  {"Ceil", std::ceil, -huge, huge, 0},
                                  {"Round", std::nearbyint, -huge, huge, 0}};
  for (const Elementary& f : functions) {
    const TileFunction value = value_of(*GetParam(), f.op);
    ASSERT_NE(value, nullptr) << f.op;
    std::vector<float> x{0.0f, -0.0f, 1.0f, -1.0f, f.low, f.high, NAN};
    for (uint32_t bits = 0; bits < 0x7f800000; bits += 2053)
      for (const float sign : {1.0f, -1.0f}) {
        const float candidate = sign * std::bit_cast<float>(bits);
        if (candidate >= f.low && candidate <= f.high) x.push_back(candidate);
      }
    std::vector<float> y(x.size());
    const float none[4] = {};
    for (size_t at = 0; at < x.size(); at += tile_elements) {
      const Values in[] = {{x.data() + at}};
      value(in, {y.data() + at}, static_cast<int64_t>(std::min<size_t>(tile_elements, x.size() - at)), none);
    }
    double worst = 0;
    float where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = distance_in_ulp(y[i], f.exact(x[i]));
      if (error > worst) worst = error, where = x[i];
    }
    EXPECT_LE(worst, f.ulp) << f.op << " at " << where;
    RecordProperty(f.op, std::to_string(worst));
  }
}

// Activations and their slopes: eight units of what their operators say they err by (d5/operators/activations.cpp), at
// least.
TEST_P(OwnLoops, ActivationsAreAsExactAsTheirOperatorsAllow) {
  struct Activation {
    const char* op;
    bool slope;
    double (*exact)(double);
    double (*magnitude)(double);
  };
  static const auto density = [](double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); };
  static const auto normal_error = [](double x) {
    return 0.5 * (1 + std::erf(std::abs(x) / std::sqrt(2.0))) + std::abs(x) * density(x);
  };
  const auto one = [](double) { return 1.0; };
  const Activation all[] = {
      {"Gelu", false, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); },
       [](double x) { return std::abs(x) * normal_error(x); }},
      {"Gelu", true, [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * density(x); },
       [](double x) { return normal_error(x) + std::abs(x) * density(x) * (1 + x * x); }},
      {"Softplus", false, [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); },
       [](double x) { return 1 + std::max(x, 0.0); }},
      {"Mish", false, [](double x) { return x * std::tanh(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)))); },
       [](double x) { return std::abs(x); }},
      {"Mish", true,
       [](double x) {
         const double t = std::tanh(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))));
         return t + x * (1 - t) * (1 + t) / (1 + std::exp(-x));
       },
       one},
  };
  std::vector<float> x{0.0f, -0.0f};
  for (uint32_t bits = 0; bits < std::bit_cast<uint32_t>(1000.0f); bits += 4111)
    for (const float sign : {1.0f, -1.0f}) x.push_back(sign * std::bit_cast<float>(bits));
  std::vector<float> y(x.size());
  const std::vector<float> dy(x.size(), 1.0f);
  const float none[4] = {};
  for (const Activation& f : all) {
    const TileFunctions* row = row_of(*GetParam(), f.op);
    ASSERT_NE(row, nullptr) << f.op;
    const Values in[] = {{x.data()}, {dy.data()}};
    (f.slope ? row->gradients[0] : row->value)(in, {y.data()}, static_cast<int64_t>(x.size()), none);
    double worst = 0;
    float where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = std::abs(y[i] - f.exact(x[i])) / (8 * 0x1p-24 * f.magnitude(x[i]) + 0x1p-126);
      if (!(error <= worst)) worst = error, where = x[i];
    }
    EXPECT_LE(worst, 1) << f.op << (f.slope ? "'s slope" : "") << " at " << where;
  }
}

TEST_P(OwnLoops, NarrowTypesAreConvertedAsCoreDoes) {
  std::vector<uint16_t> codes(65536);
  std::iota(codes.begin(), codes.end(), uint16_t{0});
  std::vector<float> wide(codes.size());
  GetParam()->convert({codes.data(), Element::bf16}, {wide.data()}, 65536);
  for (const uint16_t code : codes) {
    BFloat16 number;
    number.bits = code;
    EXPECT_EQ(std::bit_cast<uint32_t>(wide[code]), std::bit_cast<uint32_t>(static_cast<float>(number)));
  }
  GetParam()->convert({codes.data(), Element::f16}, {wide.data()}, 65536);
  for (const uint16_t code : codes) {
    Half number;
    number.bits = code;
    EXPECT_EQ(std::bit_cast<uint32_t>(wide[code]), std::bit_cast<uint32_t>(static_cast<float>(number)));
  }
  std::vector<float> x;
  for (uint64_t bits = 0; bits < 0x100000000; bits += 16411)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  std::vector<uint16_t> narrow(x.size());
  GetParam()->convert({x.data()}, {narrow.data(), Element::bf16}, static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(narrow[i], BFloat16(x[i]).bits) << x[i];
  GetParam()->convert({x.data()}, {narrow.data(), Element::f16}, static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(narrow[i], Half(x[i]).bits) << x[i];
}

// Sums of 1 to n are exact; a NaN anywhere is the maximum.
// What passes the caches by is what would have been stored, wherever it begins and ends, and nothing beside it.
TEST_P(OwnLoops, StreamedStoresAreLikeOthers) {
  const TileFunction negative = value_of(*GetParam(), "Neg");
  const float none[4] = {};
  std::vector<float> x(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) - 40.3f;
  const std::pair<Element, int64_t> types[] = {
      {Element::f32, 4}, {Element::bf16, 2}, {Element::f16, 2}, {Element::boolean, 1}};
  for (const auto& kind : types) {
    const Element type = kind.first;
    const int64_t size = kind.second;
    std::vector<unsigned char> narrow(4 * x.size());
    GetParam()->convert({x.data()}, {narrow.data(), type}, static_cast<int64_t>(x.size()));
    for (const int64_t first : {0, 1, 7, 16, 31})
      for (const int64_t n : {1, 15, 63, 64, 65, 200, 900}) {
        const auto stored = [&](bool streamed, bool from_narrow, bool scaled) {
          std::vector<unsigned char> room(4 * 1100, 0xa5);
          unsigned char* aligned = room.data() + (-reinterpret_cast<uintptr_t>(room.data()) & 63);
          const Place place{aligned + first * size, type, streamed};
          const Values from = from_narrow ? Values{narrow.data(), type} : Values{x.data()};
          if (scaled)
            GetParam()->scale(place, x.data(), 2.0f, 1.0f, n);
          else
            negative(&from, place, n, none);
          GetParam()->fence();
          return std::vector<unsigned char>(aligned, aligned + 4 * 1000);
        };
        for (const bool from_narrow : {false, true})
          EXPECT_EQ(stored(true, from_narrow, false), stored(false, from_narrow, false)) << first << ' ' << n;
        EXPECT_EQ(stored(true, false, true), stored(false, false, true)) << first << ' ' << n;
        const auto bytes = stored(true, true, false);
        EXPECT_TRUE(std::all_of(bytes.begin() + (first + n) * size, bytes.end(), [](int b) { return b == 0xa5; }));
        EXPECT_TRUE(std::all_of(bytes.begin(), bytes.begin() + first * size, [](int b) { return b == 0xa5; }));
      }
  }
}

TEST_P(OwnLoops, ReductionsOfEveryLength) {
  for (const int64_t n : {1, 2, 15, 16, 63, 64, 65, 127, 128, 200, 1000}) {
    std::vector<float> x(static_cast<size_t>(n));
    std::iota(x.begin(), x.end(), 1.0f);
    EXPECT_EQ(GetParam()->reduce[0](x.data(), n), static_cast<float>(n * (n + 1) / 2)) << n;
    EXPECT_EQ(GetParam()->reduce[static_cast<size_t>(Reduce::max)](x.data(), n), static_cast<float>(n)) << n;
    EXPECT_EQ(GetParam()->reduce[static_cast<size_t>(Reduce::min)](x.data(), n), 1.0f) << n;
    float pair[2];
    GetParam()->reduce_pair[pair_index(Reduce::max_ties)](x.data(), n, pair);
    EXPECT_EQ(pair[0], static_cast<float>(n));
    EXPECT_EQ(pair[1], 1.0f);
    x[static_cast<size_t>(n / 2)] = NAN;
    EXPECT_TRUE(std::isnan(GetParam()->reduce[static_cast<size_t>(Reduce::max)](x.data(), n))) << n;
  }
}

TEST_P(OwnLoops, SumsOfMagnitudesAndSquares) {
  const int64_t rows = 11, columns = 37;
  std::vector<float> x(rows * columns);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3.0f;
  double magnitudes = 0, squares = 0;
  for (const float value : x) magnitudes += std::abs(value), squares += value * value;
  const auto of = [&](Reduce how) { return static_cast<size_t>(how); };
  EXPECT_EQ(GetParam()->reduce[of(Reduce::sum_of_magnitudes)](x.data(), rows * columns), magnitudes);
  EXPECT_EQ(GetParam()->reduce[of(Reduce::sum_of_squares)](x.data(), rows * columns), squares);
  for (const Reduce how : {Reduce::sum_of_magnitudes, Reduce::sum_of_squares}) {
    std::vector<float> sums(columns, 1.0f);
    GetParam()->merge_rows[of(how)](sums.data(), x.data(), columns, rows, columns);
    for (int64_t c = 0; c < columns; ++c) {
      float wanted = 1;
      for (int64_t r = 0; r < rows; ++r) {
        const float value = x[static_cast<size_t>(r * columns + c)];
        wanted += how == Reduce::sum_of_squares ? value * value : std::abs(value);
      }
      EXPECT_EQ(sums[static_cast<size_t>(c)], wanted);
    }
    std::vector<float> more(columns, -2.0f);  // results on the way are added as they are
    const float before = sums[3];
    GetParam()->merge[of(how)](sums.data(), more.data(), columns);
    EXPECT_EQ(sums[3], before - 2.0f);
  }
}

// The logarithm of a sum of exponentials, of a line and of columns, against double: large numbers, infinities, NaN.
TEST_P(OwnLoops, SumsOfExponentials) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto wanted = [](const std::vector<float>& x) {
    double top = -INFINITY, sum = 0;
    for (const float value : x) {
      if (std::isnan(value)) return static_cast<double>(value);
      top = std::max(top, static_cast<double>(value));
    }
    if (std::isinf(top)) return top;
    for (const float value : x) sum += std::exp(value - top);
    return top + std::log(sum);
  };
  const auto expect_near = [](const float pair[2], double value, const char* what, size_t n) {
    const double got = pair[0] + std::log(static_cast<double>(pair[1]));
    if (std::isfinite(value))
      EXPECT_NEAR(got, value, 1e-5 * (1 + std::abs(value))) << what << ' ' << n;
    else
      EXPECT_TRUE(std::isnan(value) ? std::isnan(got) : got == value) << what << ' ' << n << ": " << got;
  };
  const auto how = pair_index(Reduce::log_sum_exp);
  for (const size_t n : {1, 7, 8, 16, 100, 1024, 3000}) {
    std::vector<float> x(n);
    for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>((i * 37) % 211) - 100.0f;
    for (const float special : {0.0f, 1e4f, -1e4f, infinity, -infinity, std::nanf("")}) {
      x[n / 2] = special;
      float pair[2] = {};
      GetParam()->reduce_pair[how](x.data(), static_cast<int64_t>(n), pair);
      expect_near(pair, wanted(x), "line", n);
      std::vector<float> columns(3 * n), top(3, -infinity), sum(3, 0.0f);
      for (size_t i = 0; i < n; ++i) columns[3 * i] = x[i], columns[3 * i + 1] = -infinity, columns[3 * i + 2] = 1.0f;
      GetParam()->merge_pairs[how](top.data(), sum.data(), columns.data(), 3, static_cast<int64_t>(n), 3);
      for (const size_t c : {0, 1, 2}) {
        const float of_column[2] = {top[c], sum[c]};
        expect_near(of_column, c == 0 ? wanted(x) : c == 1 ? -INFINITY : 1 + std::log(n), "column", n);
      }
    }
  }
}

// A piece with a number beyond the bound of the fast way, or a special one, is as exact, in place, too.
TEST_P(OwnLoops, UnusualNumbersAreTakenWithCare) {
  const float infinity = std::numeric_limits<float>::infinity(), none[4] = {};
  for (const float unusual : {1.0f, 1e6f, -3e37f, infinity}) {
    std::vector<float> x(3000);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 0.01f * static_cast<float>(i) - 7.0f;
    x[1500] = unusual;
    std::vector<float> y = x;
    const Values in[] = {{y.data()}};
    value_of(*GetParam(), "Sin")(in, {y.data()}, 3000, none);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_LE(distance_in_ulp(y[i], std::sin(static_cast<double>(x[i]))), 3) << x[i];
  }
  const float bases[] = {0.0f,  -0.0f, 0.5f,     1.0f,      2.0f,          -1.0f,
                         -2.0f, -0.5f, infinity, -infinity, std::nanf(""), 1e-40f};
  const float exponents[] = {0.0f, 1.0f,  2.0f,     3.0f,      -1.0f,         -2.0f,
                             0.5f, -3.5f, infinity, -infinity, std::nanf(""), 1e30f};
  for (const float a : bases)
    for (const float b : exponents) {
      float y;
      const Values in[] = {{&a}, {&b}};
      value_of(*GetParam(), "Pow")(in, {&y}, 1, none);
      const double wanted = std::pow(static_cast<double>(a), static_cast<double>(b));
      EXPECT_LE(distance_in_ulp(y, wanted), 100) << a << " to the " << b << " is " << y << ", not " << wanted;
    }
}

TEST_P(OwnLoops, BlocksAndTheirRestsAreTransposed) {
  const int64_t rows = 37, columns = 150;
  for (const int64_t stride : {150, 160})  // rows of whole lines are those that may pass the caches by
    for (const bool streamed : {false, true}) {
      std::vector<uint32_t> from(rows * columns), room(rows * stride + 16);
      uint32_t* to = room.data() + (-reinterpret_cast<uintptr_t>(room.data()) & 63) / 4;
      std::iota(from.begin(), from.end(), 0u);
      GetParam()->transpose_4(to, stride, from.data(), rows, rows, columns, streamed);
      GetParam()->fence();
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) ASSERT_EQ(to[r * stride + c], from[c * rows + r]);
    }
}

// Dropout keeps what the stream says, to the last element and not beyond, and can do it again by its bits.
TEST_P(OwnLoops, WhoStaysIsDecidedByTheNumbersOfTheStream) {
  const Rng rng(123456789012345, 0x1234567890abcd);
  const uint32_t least = 0x70000001;
  for (const bool streamed : {false, true})
    for (const int64_t shift : {0, 3})
      for (const int64_t n : {1, 2, 33, 64, 512, 1001, 1024}) {
        std::vector<float> x(static_cast<size_t>(n)), room(1100, 9.0f), again(1100, 9.0f);
        std::iota(x.begin(), x.end(), 1.0f);
        float* y = room.data() + (-reinterpret_cast<uintptr_t>(room.data()) & 63) / 4 + shift;
        std::vector<uint32_t> bits(tile_elements / 32);
        const Place to{y, Element::f32, streamed}, to_again{again.data(), Element::f32, streamed};
        GetParam()->drop({x.data()}, to, bits.data(), 2.0f, rng.seed(), rng.stream(), 1000, least, n);
        GetParam()->keep({x.data()}, to_again, bits.data(), 2.0f, n);
        GetParam()->fence();
        for (int64_t i = 0; i < n; ++i) {
          const auto word = static_cast<uint32_t>(rng.bits((1000 + static_cast<uint64_t>(i)) / 2) >> (i % 2 ? 32 : 0));
          ASSERT_EQ(y[i], word >= least ? 2.0f * x[static_cast<size_t>(i)] : 0.0f) << i << " of " << n;
          ASSERT_EQ(again[static_cast<size_t>(i)], y[i]) << i << " of " << n;
        }
        ASSERT_EQ(y[n], 9.0f);
        ASSERT_EQ(again[static_cast<size_t>(n)], 9.0f);
      }
}

INSTANTIATE_TEST_SUITE_P(Sets, OwnLoops, testing::ValuesIn(usable_loops()),
                         [](const auto& info) { return std::string(info.param->isa); });

}  // namespace
}  // namespace d5::onednn::own
