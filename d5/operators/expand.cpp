// SPDX-License-Identifier: Apache-2.0
// Copies along axes (ONNX Expand: numpy's broadcasting with a shape; ONNX Tile: the whole tensor, repeated).
//   Expand  y[i] = x[i], where an axis of size 1 of x stands for every i
//   Tile    y[i] = x[i mod size]
//   dx[j] = sum of dy over all copies of x[j]
#include <fmt/ranges.h>

#include "d5/operators/known.hpp"
#include "d5/operators/selection.hpp"

namespace d5 {
namespace {

class Expand final : public Selection {
 public:
  explicit Expand(const Attributes& a) { check_attributes(a, {}, place); }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "32x1x768"}, {"to", "the shape that X is broadcast with, as in 2x1x6", "1x128x1"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}, list_input(v, "to")}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "3x1"}, {"to", "2x1x6"}},   {{"shape", "3x1"}, {"to", "3x4"}},
            {{"shape", "scalar"}, {"to", "5"}},    {{"shape", "2x3"}, {"to", "none"}},
            {{"shape", "1x7x1"}, {"to", "3x1x5"}}, {{"shape", "8x1x96"}, {"to", "1x64x1"}}};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    const TensorSpec with = output_spec(in[0].dtype, known_integers(in[1], "shape", place), place);
    return output_spec(in[0].dtype, broadcast(in[0].shape, with.shape, place).sizes(), place).shape;
  }

  Sources sources(SpecSpan in) const override {
    const Shape y = output_shape(in);
    const auto strides = broadcast_strides(in[0].shape, y);
    Sources from;
    for (size_t axis = 0; axis < y.rank(); ++axis) from.add_axis(y[axis], strides[axis]);
    return from;
  }

 private:
  static constexpr std::string_view place = "[expand]";
};

class Tile final : public Selection {
 public:
  explicit Tile(const Attributes& a) { check_attributes(a, {}, place); }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "32x128x96"}, {"repeats", "copies along each axis, as in 1x2x1", "1x1x8"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}, list_input(v, "repeats")}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "3"}, {"repeats", "2"}},         {{"shape", "2x3"}, {"repeats", "2x3"}},
            {{"shape", "scalar"}, {"repeats", "none"}}, {{"shape", "2x1x5"}, {"repeats", "1x7x2"}},
            {{"shape", "2x3"}, {"repeats", "1x1"}},     {{"shape", "8x32x24"}, {"repeats", "1x2x4"}}};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    const Shape& x = in[0].shape;
    const auto repeats = known_integers(in[1], "repeats", place);
    if (repeats.size() != x.rank())
      throw Error("{} repeats is {}; {} values are wanted for X of {}", place, fmt::join(repeats, ","), x.rank(),
                  to_string(x));
    std::vector<Index> sizes = x.sizes();
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      if (repeats[axis] < 0 || __builtin_mul_overflow(sizes[axis], repeats[axis], &sizes[axis]))
        throw Error("{} axis {} of size {} cannot be repeated {} times", place, axis, x[axis], repeats[axis]);
    return output_spec(in[0].dtype, std::move(sizes), place).shape;
  }

  Sources sources(SpecSpan in) const override {
    const Shape& x = in[0].shape;
    const Shape y = output_shape(in);
    const auto strides = x.strides();
    Sources from;
    for (size_t axis = 0; axis < y.rank(); ++axis) {
      Sources::check_length(y[axis]);
      auto& steps = from.steps.emplace_back();
      for (Index i = 0; i < y[axis]; ++i) steps.push_back(i % x[axis] * strides[axis]);
    }
    return from;
  }

 private:
  static constexpr std::string_view place = "[tile]";
};

}  // namespace
D5_REGISTER(operators, "Expand", Expand);
D5_REGISTER(operators, "Tile", Tile);
}  // namespace d5
