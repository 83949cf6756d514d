// SPDX-License-Identifier: Apache-2.0
// Tensors behind each other along one axis (ONNX Concat).
//   y = [x0, x1, ...]      dx_k = the part of dy that came from x_k
#include <algorithm>

#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[concat]";

class Concat final : public Operator {
 public:
  explicit Concat(const Attributes& a) : axis_(a.integer("axis", 0)) {
    check_attributes(a, {"axis"}, place);
    if (!a.has("axis")) throw Error("{} attribute axis is missing; it has no default", place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, std::max<size_t>(1, in.size()), std::max<size_t>(1, in.size()), place);
    check_same_type(in, place);
    const size_t axis = valid_axis(axis_, in[0].shape.rank(), place);
    std::vector<Index> sizes = in[0].shape.sizes();
    for (size_t k = 1; k < in.size(); ++k) {
      bool fits = in[k].shape.rank() == sizes.size();
      for (size_t i = 0; fits && i < sizes.size(); ++i) fits = i == axis || in[k].shape[i] == sizes[i];
      if (!fits)
        throw Error("{} inputs 0 and {} are {} and {}; all sizes but that of axis {} must agree", place, k,
                    to_string(in[0].shape), to_string(in[k].shape), axis);
      if (__builtin_add_overflow(sizes[axis], in[k].shape[axis], &sizes[axis]))
        throw Error("{} the sizes of axis {} add up to more than an integer holds", place, axis);
    }
    return with_known(*this, in, {output_spec(in[0].dtype, std::move(sizes), place)});
  }

  void forward(Context& c) const override {
    with_element_type(c.output(0).dtype(), [&]<class T>() {
      const auto y = c.output(0).values<T>();
      for_each_part(c, [&](size_t k, Index whole, Index part, Index count) {
        std::ranges::copy(c.input(k).values<T>().subspan(part, count), y.begin() + whole);
      });
    });
  }

  void backward(Context& c) const override {
    const auto dy = c.output_gradient(0).values<double>();
    for_each_part(c, [&](size_t k, Index whole, Index part, Index count) {
      if (c.input_gradient(k).present())
        std::ranges::copy(dy.subspan(whole, count), c.input_gradient(k).values<double>().begin() + part);
    });
  }

  Cost cost(SpecSpan in, Pass) const override { return {0, 2 * input_bytes(in)}; }

  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of the first input", "32x64x56x56"},
            {"axis", "axis along which inputs follow each other", 1},
            {"sizes", "sizes of all inputs along that axis, as in 64x32", "64x64"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    OperatorCase one{.attributes = {{"axis", v.integer("axis", 1)}}};
    std::vector<Index> shape = parse_shape(v.text("shape", "")).sizes();
    for (const Index size : parse_shape(v.text("sizes", ""))) {
      shape[valid_axis(v.integer("axis", 1), shape.size(), place)] = size;
      one.inputs.push_back({.spec = {type, Shape(shape)}});
    }
    return one;
  }

  static std::vector<Attributes> cases() {
    return {
        {{"shape", "3"}, {"axis", 0}, {"sizes", "3x2"}},        {{"shape", "2x3"}, {"axis", 0}, {"sizes", "2x1x4"}},
        {{"shape", "2x3"}, {"axis", -1}, {"sizes", "3"}},       {{"shape", "2x3x5"}, {"axis", 1}, {"sizes", "3x0x2"}},
        {{"shape", "3x5x7"}, {"axis", -1}, {"sizes", "7x1x9"}}, {{"shape", "4x32x14x14"}, {"sizes", "32x16x8"}}};
  }

 private:
  // f(input, place in y, place in the input, count) for each run of neighbours.
  template <class F>
  void for_each_part(const Context& c, F&& f) const {
    const Shape& first = c.input(0).shape();
    const size_t axis = valid_axis(axis_, first.rank(), place);
    const Index outer = first.elements(0, axis), inner = first.elements(axis + 1, first.rank());
    for (Index i = 0, whole = 0; i < outer; ++i)
      for (size_t k = 0; k < c.inputs.size(); ++k) {
        const Index count = c.input(k).shape()[axis] * inner;
        f(k, whole, i * count, count);
        whole += count;
      }
  }

  Index axis_;
};

}  // namespace
D5_REGISTER(operators, "Concat", Concat);
}  // namespace d5
