// SPDX-License-Identifier: Apache-2.0
// Conversion to another element type (ONNX Cast; CastLike: to that of its second input), every value rounded at most
// once.
//   to a float    to nearest even; what is too large becomes infinity, in 8 bits and less the largest value (or with
//                 saturate = 0 infinity, or NaN in types without one)
//   to f8e8m0     to a power of two as round_mode says; what is outside its range, and 0, becomes the nearest one (or
//                 with saturate = 0 NaN)
//   to an integer towards zero; an integer that does not fit loses its upper bits. A float that does not fit, of which
//                 ONNX says nothing, saturates, and loses its upper bits in types of less than 8, as in ONNX's tests
//   strings       a number as text (see strings.hpp)
//   dx = dy between floats; there is no gradient from or to anything else
#include <cmath>
#include <limits>

#include "d5/core/convert.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/narrow_float.hpp"
#include "d5/operators/onnx_type.hpp"
#include "d5/operators/operator.hpp"
#include "d5/operators/strings.hpp"

namespace d5 {
namespace {

bool is_whole(DType type) { return is_integer(type) || type == DType::boolean; }

// The lowest bits of an integer, as two's complement.
template <class T>
T low_bits(int64_t value, int count) {
  if (count >= 8) return static_cast<T>(value);
  const int64_t sign = int64_t{1} << (count - 1), low = value & (2 * sign - 1);
  return static_cast<T>(std::is_signed_v<T> ? (low ^ sign) - sign : low);
}

class Conversion : public Operator {
 public:
  Conversion(const Attributes& a, std::string_view place) : place_(place), saturate_(a.flag("saturate", true)) {
    mode_ = a.text("round_mode", "up");
    if (mode_ != "up" && mode_ != "down" && mode_ != "nearest")
      throw UsageError("{} round_mode is '{}'; legal: up, down, nearest", place, mode_);
  }

  void backward(Context& c) const override {
    if (!is_float(target(c))) Operator::backward(c);
    if (c.input_gradient(0).present()) c.input_gradient(0).copy_from(c.output_gradient(0));
  }

  // Floats stay double here: they are rounded once, when they are stored.
  void forward(Context& c) const override {
    const Tensor &x = c.input(0), &y = c.output(0);
    const DType to = target(c);
    if (x.dtype() == DType::string || to == DType::string) {
      if (x.dtype() == to)
        y.copy_from(x);
      else if (to == DType::string)
        print_numbers(x, c.input_type(0), y);
      else
        parse_numbers(x, y, place_);
      return;
    }
    convert(x.dtype(), x.data(), y.dtype(), y.data(), x.elements());
    if (is_integer(to) && (is_whole(x.dtype()) || bits(to) < 8)) keep_low_bits(x, y, bits(to));
    if (!is_float(to) || bits(to) != 8) return;
    for (double& value : y.values<double>())
      value = to == DType::f8e8m0 ? power_of_two(value) : within_float8(to, value, saturate_);
  }

  Cost cost(SpecSpan in, Pass) const override {
    return {static_cast<double>(in[0].elements()), in[0].bytes() + infer(in)[0].bytes()};
  }
  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

 protected:
  virtual DType target(const Context&) const = 0;

 private:
  double power_of_two(double value) const {
    constexpr double least = 0x1p-127, most = 0x1p127;
    if (std::isnan(value)) return value;
    const double magnitude = std::abs(value);
    int exponent = 0;
    const double fraction = std::frexp(magnitude, &exponent);  // in [1/2, 1)
    const bool up = mode_ == "up" ? fraction > 0.5 : mode_ == "nearest" && fraction >= 0.75;
    const double rounded = std::isinf(magnitude) ? magnitude : magnitude == 0 ? 0 : std::ldexp(1, exponent - !up);
    if (rounded >= least && rounded <= most) return rounded;
    if (!saturate_) return std::numeric_limits<double>::quiet_NaN();
    return rounded < least ? least : most;
  }

  static void keep_low_bits(const Tensor& x, const Tensor& y, int count) {
    const Tensor wide = x.dtype() == DType::u64 ? x : x.cast(DType::i64);  // as bits they are the same
    const auto* from = static_cast<const int64_t*>(wide.data());
    with_compute_type(y.dtype(), [&]<class To>() {
      if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool>) {
        const auto to = y.values<To>();
        for (size_t i = 0; i < to.size(); ++i) to[i] = low_bits<To>(from[i], count);
      }
    });
  }

  std::string_view place_;
  bool saturate_;
  std::string mode_;
};

class Cast final : public Conversion {
 public:
  explicit Cast(const Attributes& a) : Conversion(a, place) {
    check_attributes(a, {"round_mode", "saturate", "to"}, place);
    const auto to = type_attribute(a, "to", place);
    if (!to) throw UsageError("{} to is missing; an element type is wanted", place);
    to_ = *to;
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    return {{to_, in[0].shape}};
  }

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

 protected:
  DType target(const Context&) const override { return to_; }

 private:
  static constexpr std::string_view place = "[cast]";
  DType to_;
};

class CastLike final : public Conversion {
 public:
  explicit CastLike(const Attributes& a) : Conversion(a, place) {
    check_attributes(a, {"round_mode", "saturate"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    return {{in[1].dtype, in[0].shape}};
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "64x256x14x14"}, {"like", "element type of the second input", "bf16"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const DType to = parse_dtype(v.text("like", ""));
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .differentiable = is_float(to)},
                       {.spec = {to, {1}}, .differentiable = false}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "scalar"}}, {{"shape", "3x17"}, {"like", "f32"}}, {{"shape", "5"}, {"like", "i8"}}};
  }

 protected:
  DType target(const Context& c) const override { return c.input_type(1); }

 private:
  static constexpr std::string_view place = "[cast_like]";
};

}  // namespace
D5_REGISTER(operators, "Cast", Cast);
D5_REGISTER(operators, "CastLike", CastLike);
}  // namespace d5
