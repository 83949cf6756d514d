// SPDX-License-Identifier: Apache-2.0
// The same elements in another shape (ONNX Reshape, Flatten, Squeeze, Unsqueeze).
//   y = x      dx = dy
// Reshape    0 in the new shape copies the size of X (with allowzero it is a size of 0), -1 is what is left
// Flatten    two axes: those before `axis` together, and those from it on
// Squeeze    without the axes given (all of size 1), or without every axis of size 1
// Unsqueeze  with an axis of size 1 at each place given, counted in the result
#include <fmt/ranges.h>

#include <algorithm>

#include "d5/operators/known.hpp"

namespace d5 {
namespace {

class SameElements : public Operator {
 public:
  std::vector<TensorSpec> infer(SpecSpan in) const final {
    const Shape made = shape(in);  // looks whether there is an input
    return with_known(*this, in, {{in[0].dtype, made}});
  }

  void forward(Context& c) const final { c.output(0).copy_from(c.input(0)); }

  void backward(Context& c) const final {
    if (c.input_gradient(0).present()) c.input_gradient(0).copy_from(c.output_gradient(0));
  }

  // Copied, as an operator on its own must; inside a network a backend may share the memory.
  Cost cost(SpecSpan in, Pass) const final { return {0, 2 * in[0].bytes() + input_bytes(in.subspan(1))}; }

  Rounding rounding(SpecSpan, Pass, size_t) const final { return {.terms = 0, .units = 0, .exact = true}; }

 protected:
  virtual Shape shape(SpecSpan in) const = 0;
};

class Reshape final : public SameElements {
 public:
  explicit Reshape(const Attributes& a) : allowzero_(a.flag("allowzero", false)) {
    check_attributes(a, {"allowzero"}, place);
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "32x128x768"},
            {"to", "the new shape, as in 0x-1x12: 0 copies a size, -1 is what is left", "0x0x12x64"},
            {"allowzero", "0 is a size of 0", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}, list_input(v, "to")},
            .attributes = {{"allowzero", int64_t{v.flag("allowzero", false)}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "2x3"}, {"to", "3x2"}},      {{"shape", "1x1"}, {"to", "none"}},
            {{"shape", "2x3x4"}, {"to", "0x-1"}},   {{"shape", "2x3x5"}, {"to", "-1x2x3"}},
            {{"shape", "scalar"}, {"to", "1x1x1"}}, {{"shape", "4x32x96"}, {"to", "0x0x12x8"}}};
  }

 protected:
  Shape shape(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    const Shape& x = in[0].shape;
    std::vector<Index> sizes = known_integers(in[1], "shape", place);
    const auto fail = [&](const std::string& why) {
      throw Error("{} {} cannot take the shape {}: {}", place, to_string(x), fmt::join(sizes, "x"), why);
    };
    const auto unknown = std::ranges::count(sizes, -1);
    if (unknown > 1) fail("it has -1 more than once");
    if (allowzero_ && unknown == 1 && std::ranges::count(sizes, 0) > 0) fail("-1 and a size of 0 leave it undecided");
    auto wanted = sizes;
    for (size_t axis = 0; axis < wanted.size(); ++axis) {
      if (wanted[axis] < -1) fail(fmt::format("a size of {} does not exist", wanted[axis]));
      if (wanted[axis] != 0 || allowzero_) continue;
      if (axis >= x.rank()) fail(fmt::format("X has no axis {} to copy a size from", axis));
      wanted[axis] = x[axis];
    }
    auto known = wanted;
    std::erase(known, -1);
    const Index product = output_spec(in[0].dtype, known, place).elements();
    if (unknown == 1) {
      if (product == 0 || x.elements() % product != 0)
        fail(fmt::format("{} elements are no multiple of {}", x.elements(), product));
      *std::ranges::find(wanted, -1) = x.elements() / product;
    } else if (product != x.elements()) {
      fail(fmt::format("{} and {} elements", x.elements(), product));
    }
    return Shape(std::move(wanted));
  }

 private:
  static constexpr std::string_view place = "[reshape]";
  bool allowzero_;
};

class Flatten final : public SameElements {
 public:
  explicit Flatten(const Attributes& a) : axis_(a.integer("axis", 1)) { check_attributes(a, {"axis"}, place); }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "32x64x7x7"}, {"axis", "the first axis of the second part", 1}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}},
            .attributes = {{"axis", v.integer("axis", 1)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "2x3x4"}}, {{"shape", "2x3x4"}, {"axis", 0}},  {{"shape", "2x3x4x5"}, {"axis", -1}},
            {{"shape", "5"}},     {{"shape", "scalar"}, {"axis", 0}}, {{"shape", "8x64x7x7"}}};
  }

 protected:
  Shape shape(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    const Shape& x = in[0].shape;
    const auto rank = static_cast<Index>(x.rank());
    if (axis_ < -rank || axis_ > rank)
      throw Error("{} axis {} is out of range; for a tensor of rank {} it is {} to {}", place, axis_, rank, -rank,
                  rank);
    const auto axis = static_cast<size_t>(axis_ < 0 ? axis_ + rank : axis_);
    return Shape{x.elements(0, axis), x.elements(axis, x.rank())};
  }

 private:
  static constexpr std::string_view place = "[flatten]";
  Index axis_;
};

class Squeeze final : public SameElements {
 public:
  explicit Squeeze(const Attributes& a) { check_attributes(a, {}, place); }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "32x1x1x2048"},
            {"axes", "axes of size 1 that go, as in 1x2; empty: all of size 1", ""}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}, list_input(v, "axes")}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "1x3x1"}},
            {{"shape", "1x3x1x5"}, {"axes", "-2"}},
            {{"shape", "1x1"}, {"axes", "0x1"}},
            {{"shape", "2x3"}, {"axes", "none"}},
            {{"shape", "32x1x1x500"}}};
  }

 protected:
  Shape shape(SpecSpan in) const override {
    check_inputs(in, 1, 2, place);
    const Shape& x = in[0].shape;
    std::vector<bool> goes(x.rank(), false);
    if (has(in, 1)) {
      for (const Index given : known_integers(in[1], "axes", place)) {
        const size_t axis = valid_axis(given, x.rank(), place);
        if (x[axis] != 1)
          throw Error("{} axis {} of {} has size {}; only axes of size 1 can go", place, given, to_string(x), x[axis]);
        goes[axis] = true;
      }
    } else {
      for (size_t axis = 0; axis < x.rank(); ++axis) goes[axis] = x[axis] == 1;
    }
    std::vector<Index> sizes;
    for (size_t axis = 0; axis < x.rank(); ++axis)
      if (!goes[axis]) sizes.push_back(x[axis]);
    return Shape(std::move(sizes));
  }

 private:
  static constexpr std::string_view place = "[squeeze]";
};

class Unsqueeze final : public SameElements {
 public:
  explicit Unsqueeze(const Attributes& a) { check_attributes(a, {}, place); }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "32x2048"}, {"axes", "where axes of size 1 come, counted in Y, as in 2x3", "2x3"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}, list_input(v, "axes")}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "3"}, {"axes", "0"}},
            {{"shape", "scalar"}, {"axes", "-1"}},
            {{"shape", "2x3"}, {"axes", "3x0"}},
            {{"shape", "2x3x4"}, {"axes", "-1x1"}},
            {{"shape", "32x500"}}};
  }

 protected:
  Shape shape(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    const Shape& x = in[0].shape;
    const auto axes = known_integers(in[1], "axes", place);
    std::vector<Index> sizes(x.rank() + axes.size(), 0);
    for (const Index given : axes) {
      const size_t axis = valid_axis(given, sizes.size(), place);
      if (sizes[axis] == 1) throw Error("{} axis {} is given twice", place, given);
      sizes[axis] = 1;
    }
    for (size_t axis = 0, from = 0; axis < sizes.size(); ++axis)
      if (sizes[axis] == 0) sizes[axis] = x[from++];
    return Shape(std::move(sizes));
  }

 private:
  static constexpr std::string_view place = "[unsqueeze]";
};

}  // namespace
D5_REGISTER(operators, "Reshape", Reshape);
D5_REGISTER(operators, "Flatten", Flatten);
D5_REGISTER(operators, "Squeeze", Squeeze);
D5_REGISTER(operators, "Unsqueeze", Unsqueeze);
}  // namespace d5
