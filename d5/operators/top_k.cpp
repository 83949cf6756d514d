// SPDX-License-Identifier: Apache-2.0
// The k largest (or smallest) elements of each line along an axis, and where they lie (ONNX TopK). Of equal elements
// the one with the lower index comes first; NaN counts as larger than every number. sorted = 0 leaves the order to the
// backend; here it is the same.
//   values = x[indices]      dx[indices] = d values, zero elsewhere
#include <algorithm>
#include <numeric>

#include "d5/operators/known.hpp"
#include "d5/operators/magnitude.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[top_k]";

class TopK final : public Operator {
 public:
  explicit TopK(const Attributes& a) : axis_(a.integer("axis", -1)), largest_(a.flag("largest", true)) {
    check_attributes(a, {"axis", "largest", "sorted"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_type(in[0],
               {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64,
                DType::u8, DType::u16, DType::u32, DType::u64},
               place);
    std::vector<Index> sizes = in[0].shape.sizes();
    const size_t axis = valid_axis(axis_, sizes.size(), place);
    const Index k = known_integer(in[1], "K", place);
    if (k < 0 || k > sizes[axis])
      throw Error("{} K is {}; 0 to {} are legal, axis {} of {}", place, k, sizes[axis], axis, to_string(in[0].shape));
    sizes[axis] = k;
    return with_known(*this, in, {{in[0].dtype, Shape(sizes)}, {DType::i64, Shape(sizes)}});
  }

  void forward(Context& c) const override {
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      const auto x = c.input(0).values<T>();
      for_each_winner<T>(c, [&](Index y, Index source, Index position) {
        if (c.output(0).present()) c.output(0).values<T>()[y] = x[source];
        if (c.output(1).present()) c.output(1).values<int64_t>()[y] = position;
      });
    });
  }

  void backward(Context& c) const override {
    if (!c.input_gradient(0).present()) return;
    const auto dx = cleared(c.input_gradient(0)), dy = c.output_gradient(0).values<double>();
    for_each_winner<double>(c, [&](Index y, Index source, Index) { dx[source] = dy[y]; });
  }

  // One comparison an element at least; backward reads the indices.
  Cost cost(SpecSpan in, Pass) const override {
    const auto out = infer(in);
    return {static_cast<double>(in[0].elements()), in[0].bytes() + out[0].bytes() + out[1].bytes() + in[1].bytes()};
  }

  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

  // On absolute values other elements would win. Nothing rounds here, so the scale is never used: the result itself.
  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    return pass == Pass::forward ? c.output(index).cast(DType::f64) : c.input_gradient(index);
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "128x1000"},
            {"k", "how many elements of each line", 10},
            {"axis", "axis that is searched", -1},
            {"largest", "the largest ones, or the smallest", true},
            {"sorted", "in order", true}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}, known_input({v.integer("k", 10)})},
            .attributes = {{"axis", v.integer("axis", -1)},
                           {"largest", int64_t{v.flag("largest", true)}},
                           {"sorted", int64_t{v.flag("sorted", true)}}},
            .outputs = 2};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "5"}, {"k", 1}},
            {{"shape", "3x4"}, {"k", 3}},
            {{"shape", "3x4"}, {"k", 4}, {"largest", false}},
            {{"shape", "7x3"}, {"k", 2}, {"axis", 0}},
            {{"shape", "2x9x3"}, {"k", 4}, {"axis", -2}, {"largest", false}},
            {{"shape", "16x200"}, {"k", 10}}};
  }

 private:
  template <class T>
  bool before(T a, T b) const {
    const bool a_nan = a != a, b_nan = b != b;
    if (a_nan || b_nan) return largest_ ? a_nan && !b_nan : b_nan && !a_nan;
    return largest_ ? a > b : a < b;
  }

  // f(place in the outputs, place in x, index along the axis)
  template <class T, class F>
  void for_each_winner(const Context& c, F&& f) const {
    const Shape& shape = c.input(0).shape();
    const size_t axis = valid_axis(axis_, shape.rank(), place);
    const Index size = shape[axis], inner = shape.elements(axis + 1, shape.rank());
    const Index k = integers(c.input(1))[0], lines = shape.elements(0, axis) * inner;
    const auto x = c.input(0).values<T>();
    std::vector<Index> order(static_cast<size_t>(size));
    for (Index line = 0; line < lines; ++line) {
      const Index outer = line / inner, start = outer * size * inner + line % inner;
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](Index i, Index j) {
        const T a = x[start + i * inner], b = x[start + j * inner];
        return before(a, b) || (!before(b, a) && i < j);
      });
      for (Index i = 0; i < k; ++i) f((outer * k + i) * inner + line % inner, start + order[i] * inner, order[i]);
    }
  }

  Index axis_;
  bool largest_;
};

}  // namespace
D5_REGISTER(operators, "TopK", TopK);
}  // namespace d5
