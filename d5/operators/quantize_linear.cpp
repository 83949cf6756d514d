// SPDX-License-Identifier: Apache-2.0
// Numbers as few bits, and back (ONNX QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear). A scale and a zero
// point z serve the whole tensor, a slice of `axis`, or a block of block_size neighbours along it.
//   quantize    y = saturate(round(x / scale) + z), round to nearest even; the quotient is rounded to `precision` (by
//               default the type of the scale) first; to a float, y = x / scale + z
//   dequantize  y = (x - z) scale
//   dynamic     scale = (max(0, max x) - min(0, min x)) / 255      z = round(-min(0, min x) / scale)      all in the
//               type of x: f32 in ONNX, f64 in the oracle of networks
// No gradient.
#include <algorithm>
#include <cmath>

#include "d5/operators/exact.hpp"
#include "d5/operators/narrow_float.hpp"
#include "d5/operators/onnx_type.hpp"

namespace d5 {
namespace {

// Which scale an element has.
class Grain {
 public:
  // Error where the scale's shape fits none of the three ways.
  Grain(const Shape& x, const Shape& scale, Index axis, Index block, std::string_view place) {
    if (scale.elements() == 1 && scale.rank() <= 1) return;
    axis_ = valid_axis(axis, x.rank(), place);
    inner_ = x.elements(axis_ + 1, x.rank());
    size_ = x[axis_];
    slices_ = size_;
    if (block == 0) {
      if (scale.rank() != 1 || scale[0] != size_)
        throw Error("{} the scale is {}; one value, or {} for axis {} of {}, is wanted (or block_size)", place,
                    to_string(scale), size_, axis_, to_string(x));
      kind_ = Kind::axis;
      return;
    }
    bool fits = block > 0 && scale.rank() == x.rank();
    for (size_t i = 0; fits && i < x.rank(); ++i) fits = scale[i] == (i == axis_ ? (x[i] + block - 1) / block : x[i]);
    if (!fits)
      throw Error("{} the scale is {}; with block_size {} along axis {} of {} it has another shape", place,
                  to_string(scale), block, axis_, to_string(x));
    kind_ = Kind::block;
    block_ = block;
    slices_ = scale[axis_];
  }

  Index operator()(Index element) const {
    if (kind_ == Kind::whole) return 0;
    const Index slice = element / inner_ % size_;
    if (kind_ == Kind::axis) return slice;
    return (element / inner_ / size_ * slices_ + slice / block_) * inner_ + element % inner_;
  }

 private:
  enum class Kind { whole, axis, block };
  Kind kind_ = Kind::whole;
  size_t axis_ = 0;
  Index inner_ = 1, size_ = 1, slices_ = 1, block_ = 1;
};

constexpr std::initializer_list<DType> quantized_types{
    DType::u8,     DType::i8,         DType::u16,    DType::i16,      DType::u4,
    DType::i4,     DType::u2,         DType::i2,     DType::f8e4m3fn, DType::f8e4m3fnuz,
    DType::f8e5m2, DType::f8e5m2fnuz, DType::f4e2m1, DType::f6e2m3,   DType::f6e3m2};

// The same value for a scalar, as doubles.
Tensor wide(const Tensor& t) { return t.dtype() == DType::f64 ? t : t.cast(DType::f64); }

// Shapes of scale and zero point of a case.
struct GrainCase {
  std::vector<Index> scale;
  Index axis = 1, block = 0;
};
GrainCase grain_case(const Attributes& v, const Shape& x, std::string_view place) {
  const std::string by = v.text("by", "tensor");
  GrainCase one{.axis = v.integer("axis", 1), .block = v.integer("block", 0)};
  if (by == "axis") one.scale = {x[valid_axis(one.axis, x.rank(), place)]};
  if (by == "block") {
    one.scale = x.sizes();
    Index& size = one.scale[valid_axis(one.axis, x.rank(), place)];
    size = (size + one.block - 1) / std::max<Index>(1, one.block);
  } else {
    one.block = 0;
  }
  return one;
}
std::vector<Parameter> grain_parameters(const char* type) {
  return {{"shape", "shape of X", "64x256x14x14"},
          {"quantized", "the narrow element type", type},
          {"by", "what a scale serves: tensor, axis or block", "tensor"},
          {"axis", "axis of scales by axis or block", 1},
          {"block", "elements of a block", 32}};
}
std::vector<Attributes> grain_cases() {
  return {{{"shape", "17"}},
          {{"shape", "3x4x5"}, {"by", "axis"}, {"quantized", "i8"}},
          {{"shape", "2x7x3"}, {"by", "block"}, {"block", 3}, {"quantized", "u4"}},
          {{"shape", "6x5"}, {"quantized", "i16"}},
          {{"shape", "6x5"}, {"by", "axis"}, {"axis", -1}, {"quantized", "i2"}}};
}

class QuantizeLinear final : public Exact {
 public:
  explicit QuantizeLinear(const Attributes& a)
      : axis_(a.integer("axis", 1)),
        block_(a.integer("block_size", 0)),
        saturate_(a.flag("saturate", true)),
        type_(type_attribute(a, "output_dtype", place)),
        precision_(type_attribute(a, "precision", place)) {
    check_attributes(a, {"axis", "block_size", "output_dtype", "precision", "saturate"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 3, place);
    check_type(in[0], {DType::f32, DType::f16, DType::bf16, DType::i32, DType::f64}, place);
    Grain(in[0].shape, in[1].shape, axis_, block_, place);
    if (has(in, 2)) {
      if (in[2].shape.elements() != in[1].shape.elements())
        throw Error("{} the zero point is {} and the scale {}; one shape is wanted", place, to_string(in[2].shape),
                    to_string(in[1].shape));
      if (type_ && *type_ != in[2].dtype)
        throw Error("{} output_dtype is {}, the zero point {}; one type is wanted", place, name(*type_),
                    name(in[2].dtype));
    }
    const TensorSpec y{has(in, 2) ? in[2].dtype : type_.value_or(DType::u8), in[0].shape};
    check_type(y, quantized_types, place);
    return {y};
  }

  void forward(Context& c) const override {
    const Grain at(c.input(0).shape(), c.input(1).shape(), axis_, block_, place);
    const DType type = c.input(2).present() ? c.input_type(2) : type_.value_or(DType::u8);
    const DType precision = precision_.value_or(c.input_type(1));
    const Tensor x = wide(c.input(0)), scale = wide(c.input(1));
    const Tensor zero = c.input(2).present() ? wide(c.input(2)) : Tensor();
    Tensor y(DType::f64, c.output(0).shape());
    for (Index i = 0; i < y.elements(); ++i) {
      const double z = zero.present() ? zero.values<double>()[at(i)] : 0;
      const double quotient = x.values<double>()[i] / scale.values<double>()[at(i)];
      const double q = precision == DType::f8e8m0 ? quotient : rounded_to(precision, quotient);
      y.values<double>()[i] = is_float(type)  ? within_float8(type, q + z, saturate_)
                              : std::isnan(q) ? z
                                              : std::nearbyint(q) + z;
    }
    // To an integer the conversion saturates; what is narrower than the tensor's type does so when it is stored.
    c.output(0).copy_from(wide_of(y, c.output(0).dtype()));
  }

  Cost cost(SpecSpan in, Pass) const override {
    return {3 * static_cast<double>(in[0].elements()), input_bytes(in) + infer(in)[0].bytes()};
  }

  static std::vector<Parameter> parameters() { return grain_parameters("u8"); }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", ""));
    const GrainCase grain = grain_case(v, x, place);
    const DType to = parse_dtype(v.text("quantized", ""));
    return {.inputs = {{.spec = {type, x}, .low = -4, .high = 4, .differentiable = false},
                       {.spec = {type == DType::i32 ? DType::f32 : type, Shape(grain.scale)},
                        .low = 0.01,
                        .high = 0.1,
                        .differentiable = false},
                       {.spec = {to, Shape(grain.scale)}, .low = 0, .high = 1, .differentiable = false}},
            .attributes = {{"axis", grain.axis}, {"block_size", grain.block}}};
  }

  static std::vector<Attributes> cases() { return grain_cases(); }

 private:
  static constexpr std::string_view place = "[quantize_linear]";
  static Tensor wide_of(const Tensor& y, DType type) { return type == DType::f64 ? y : y.cast(type); }

  Index axis_, block_;
  bool saturate_;
  std::optional<DType> type_, precision_;
};

class DequantizeLinear final : public Operator {
 public:
  explicit DequantizeLinear(const Attributes& a)
      : axis_(a.integer("axis", 1)),
        block_(a.integer("block_size", 0)),
        type_(type_attribute(a, "output_dtype", place)) {
    check_attributes(a, {"axis", "block_size", "output_dtype"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 3, place);
    if (in[0].dtype != DType::i32) check_type(in[0], quantized_types, place);
    check_type(in[1], {DType::f32, DType::f16, DType::bf16, DType::f8e8m0, DType::f64}, place);
    Grain(in[0].shape, in[1].shape, axis_, block_, place);
    if (has(in, 2) && (in[2].dtype != in[0].dtype || in[2].shape.elements() != in[1].shape.elements()))
      throw Error("{} the zero point is {}; {}, the type of X and the shape of the scale, is wanted", place,
                  to_string(in[2]), to_string(TensorSpec{in[0].dtype, in[1].shape}));
    return {{type_.value_or(in[1].dtype), in[0].shape}};
  }

  void forward(Context& c) const override {
    const Grain at(c.input(0).shape(), c.input(1).shape(), axis_, block_, place);
    const Tensor x = wide(c.input(0)), scale = wide(c.input(1));
    const Tensor zero = c.input(2).present() ? wide(c.input(2)) : Tensor();
    const auto y = c.output(0).values<double>();
    for (Index i = 0; i < c.output(0).elements(); ++i) {
      const double z = zero.present() ? zero.values<double>()[at(i)] : 0;
      y[i] = (x.values<double>()[i] - z) * scale.values<double>()[at(i)];
    }
  }

  Cost cost(SpecSpan in, Pass) const override {
    return {2 * static_cast<double>(in[0].elements()), input_bytes(in) + infer(in)[0].bytes()};
  }
  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 2}; }
  Tensor magnitude(const Context& c, Pass, size_t) const override {
    Tensor scale = c.output(0).clone();
    for (double& value : scale.values<double>()) value = std::abs(value);
    return scale;
  }

  static std::vector<Parameter> parameters() { return grain_parameters("u8"); }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", ""));
    const GrainCase grain = grain_case(v, x, place);
    const DType from = parse_dtype(v.text("quantized", ""));
    return {.inputs = {{.spec = {from, x}, .low = 0, .high = 100, .differentiable = false},
                       {.spec = {type, Shape(grain.scale)}, .low = 0.01, .high = 0.1, .differentiable = false},
                       {.spec = {from, Shape(grain.scale)}, .low = 0, .high = 1, .differentiable = false}},
            .attributes = {{"axis", grain.axis}, {"block_size", grain.block}}};
  }

  static std::vector<Attributes> cases() { return grain_cases(); }

 private:
  static constexpr std::string_view place = "[dequantize_linear]";
  Index axis_, block_;
  std::optional<DType> type_;
};

class DynamicQuantizeLinear final : public Exact {
 public:
  explicit DynamicQuantizeLinear(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0], {DType::f32, DType::f64}, place);
    return {{DType::u8, in[0].shape}, {in[0].dtype, {}}, {DType::u8, {}}};
  }

  void forward(Context& c) const override {
    if (c.input_type(0) == DType::f32)
      quantize<float>(c);
    else
      quantize<double>(c);
  }

  Cost cost(SpecSpan in, Pass) const override {
    const double elements = static_cast<double>(in[0].elements());
    return {5 * elements, in[0].bytes() + elements};
  }

  static std::vector<Parameter> parameters() { return {{"shape", "shape of X", "64x1024"}}; }
  static OperatorCase describe(const Attributes& v, DType type) {
    return {
        .inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .low = -2, .high = 3, .differentiable = false}},
        .outputs = 3};
  }
  static std::vector<Attributes> cases() { return {{{"shape", "6"}}, {{"shape", "3x4"}}}; }

 private:
  // All arithmetic in T.
  template <class T>
  static void quantize(Context& c) {
    T low = 0, high = 0;
    for (const double x : c.input(0).values<double>()) {
      low = std::min(low, static_cast<T>(x));
      high = std::max(high, static_cast<T>(x));
    }
    const T scale = (low == high ? T{1} : high - low) / T{255};
    const T zero = std::nearbyint(std::clamp(-low / scale, T{0}, T{255}));
    if (c.output(0).present()) {
      const auto x = c.input(0).values<double>();
      const auto y = c.output(0).values<uint8_t>();
      for (size_t i = 0; i < y.size(); ++i) {
        const T q = std::nearbyint(static_cast<T>(x[i]) / scale) + zero;
        y[i] = std::isnan(q) ? 0 : static_cast<uint8_t>(std::clamp(q, T{0}, T{255}));
      }
    }
    if (c.output(1).present()) c.output(1).values<double>()[0] = scale;
    if (c.output(2).present()) c.output(2).values<uint8_t>()[0] = static_cast<uint8_t>(zero);
  }

  static constexpr std::string_view place = "[dynamic_quantize_linear]";
};

}  // namespace
D5_REGISTER(operators, "QuantizeLinear", QuantizeLinear);
D5_REGISTER(operators, "DequantizeLinear", DequantizeLinear);
D5_REGISTER(operators, "DynamicQuantizeLinear", DynamicQuantizeLinear);
}  // namespace d5
