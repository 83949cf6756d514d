// SPDX-License-Identifier: Apache-2.0
// Conversion to another element type (ONNX Cast), every value rounded at most once.
//   to a float    to nearest even; what is too large becomes infinity, in 8 bits and less the largest value (or with
//                 saturate = 0 NaN)
//   to an integer towards zero; an integer that does not fit loses its upper bits, a float that does not fit saturates
//   dx = dy between floats; there is no gradient from or to anything else
#include <cmath>
#include <limits>

#include "d5/core/convert.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[cast]";

// ONNX's TensorProto.DataType numbers.
DType from_onnx(int64_t code) {
  switch (code) {
    case 1: return DType::f32;
    case 2: return DType::u8;
    case 3: return DType::i8;
    case 4: return DType::u16;
    case 5: return DType::i16;
    case 6: return DType::i32;
    case 7: return DType::i64;
    case 9: return DType::boolean;
    case 10: return DType::f16;
    case 11: return DType::f64;
    case 12: return DType::u32;
    case 13: return DType::u64;
    case 16: return DType::bf16;
    case 17: return DType::f8e4m3fn;
    case 18: return DType::f8e4m3fnuz;
    case 19: return DType::f8e5m2;
    case 20: return DType::f8e5m2fnuz;
    case 21: return DType::u4;
    case 22: return DType::i4;
    case 23: return DType::f4e2m1;
    default: throw UsageError("{} to is {}; ONNX's number of a numeric element type is wanted", place, code);
  }
}

bool is_whole(DType type) { return is_integer(type) || type == DType::boolean; }
bool is_float8(DType type) { return is_float(type) && bits(type) == 8; }

// The largest value of an 8-bit float, and the least that rounds to more (a tie goes to the even neighbour).
struct Range {
  double largest, beyond;
};
Range range(DType type) {
  switch (type) {
    case DType::f8e4m3fn: return {448, std::nextafter(464, 1000)};
    case DType::f8e4m3fnuz: return {240, 248};
    default: return {57344, 61440};
  }
}

// The lowest bits of an integer, as two's complement.
template <class T>
T low_bits(int64_t value, int count) {
  if (count == 4) return static_cast<T>(std::is_signed_v<T> ? ((value & 15) ^ 8) - 8 : value & 15);
  return static_cast<T>(value);
}

class Cast final : public Operator {
 public:
  explicit Cast(const Attributes& a) : saturate_(a.flag("saturate", true)) {
    check_attributes(a, {"round_mode", "saturate", "to"}, place);  // round_mode concerns f8e8m0, which is not here
    if (!a.has("to")) throw UsageError("{} to is missing; an element type is wanted", place);
    const bool named = std::holds_alternative<std::string>(a.values().at("to"));
    to_ = named ? parse_dtype(a.text("to", "")) : from_onnx(a.integer("to", 1));
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    if (in[0].dtype == DType::string || to_ == DType::string)
      throw Error("{} {} to {}: numbers alone are converted", place, name(in[0].dtype), name(to_));
    if (!saturate_ && to_ == DType::f8e5m2)
      throw Error("{} saturate is 0: infinity cannot be stored in f8e5m2, whose conversion saturates", place);
    return {{to_, in[0].shape}};
  }

  // Floats stay double here: they are rounded once, when they are stored.
  void forward(Context& c) const override {
    const Tensor &x = c.input(0), &y = c.output(0);
    convert(x.dtype(), x.data(), y.dtype(), y.data(), x.elements());
    if (is_integer(to_) && is_whole(x.dtype()))
      with_compute_type(x.dtype(), [&]<class From>() {
        with_compute_type(to_, [&]<class To>() {
          if constexpr (std::is_integral_v<From> && std::is_integral_v<To> && !std::is_same_v<To, bool>) {
            const auto from = x.values<From>();
            const auto to = y.values<To>();
            for (size_t i = 0; i < from.size(); ++i) to[i] = low_bits<To>(static_cast<int64_t>(from[i]), bits(to_));
          }
        });
      });
    if (is_float8(to_)) {
      const auto [largest, beyond] = range(to_);
      for (double& value : y.values<double>())
        if (std::abs(value) >= beyond)
          value = saturate_ ? std::copysign(largest, value) : std::numeric_limits<double>::quiet_NaN();
    }
  }

  void backward(Context& c) const override {
    if (!is_float(to_)) Operator::backward(c);
    if (c.input_gradient(0).present()) c.input_gradient(0).copy_from(c.output_gradient(0));
  }

  Cost cost(SpecSpan in, Pass) const override {
    return {static_cast<double>(in[0].elements()), in[0].bytes() + infer(in)[0].bytes()};
  }
  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "64x256x14x14"},
            {"to", "element type of the result", "bf16"},
            {"saturate", "8-bit floats: what is too large becomes the largest, else NaN", true}};
  }

  // Values that are normal numbers of the narrow floats, too.
  static OperatorCase describe(const Attributes& v, DType type) {
    const DType to = parse_dtype(v.text("to", ""));
    const bool narrow = is_float(to) && bits(to) <= 8;
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))},
                        .low = narrow ? 1.0 : -4.0,
                        .high = 4,
                        .differentiable = is_float(to)}},
            .attributes = {{"to", std::string(name(to))}, {"saturate", int64_t{v.flag("saturate", true)}}}};
  }

  static std::vector<Attributes> cases() {
    std::vector<Attributes> all{{{"shape", "scalar"}}, {{"shape", "4x32x14x14"}, {"to", "f32"}}};
    for (const char* to : {"f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e5m2fnuz", "f4e2m1", "i8", "i32", "u64", "bool"})
      all.push_back({{"shape", "3x17"}, {"to", to}});
    return all;
  }

 private:
  DType to_;
  bool saturate_;
};

}  // namespace
D5_REGISTER(operators, "Cast", Cast);
}  // namespace d5
