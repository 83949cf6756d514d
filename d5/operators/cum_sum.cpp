// SPDX-License-Identifier: Apache-2.0
// Running sums along an axis (ONNX CumSum). `exclusive` leaves the element itself out, `reverse` starts at the end.
//   y_i = sum of x_j over j <= i      dx_j = sum of dy_i over i >= j
#include <algorithm>

#include "d5/operators/known.hpp"
#include "d5/operators/lines.hpp"
#include "d5/operators/product.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[cum_sum]";

class CumSum final : public Operator {
 public:
  explicit CumSum(const Attributes& a) : exclusive_(a.flag("exclusive", false)), reverse_(a.flag("reverse", false)) {
    check_attributes(a, {"exclusive", "reverse"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u32, DType::u64},
               place);
    check_index_type(in[1], "axis", place);
    if (in[1].elements() != 1) throw Error("{} axis has {} values; one is wanted", place, in[1].elements());
    if (in[1].known) valid_axis(integers(*in[1].known)[0], in[0].shape.rank(), place);
    return with_known(*this, in, {{in[0].dtype, in[0].shape}});
  }

  void forward(Context& c) const override {
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      for (auto [x, y] : lines<T>(axis(c), c.input(0), c.output(0))) accumulate<T>(x, y, reverse_);
    });
  }

  void backward(Context& c) const override {
    if (!c.input_gradient(0).present()) return;
    for (auto [dy, dx] : lines<double>(axis(c), c.output_gradient(0), c.input_gradient(0)))
      accumulate<double>(dy, dx, !reverse_);
  }

  Cost cost(SpecSpan in, Pass) const override {
    return {static_cast<double>(in[0].elements()), 2 * in[0].bytes() + in[1].bytes()};
  }

  Rounding rounding(SpecSpan in, Pass, size_t) const override {
    const Shape& x = in[0].shape;
    Index longest = 0;
    for (const Index size : x) longest = std::max(longest, size);
    if (in[1].known) longest = x[valid_axis(integers(*in[1].known)[0], x.rank(), place)];
    return {.terms = static_cast<double>(longest), .units = 0, .exact = true};
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "128x1000"},
            {"axis", "axis along which sums run", -1},
            {"exclusive", "leave out the element itself", false},
            {"reverse", "start at the end", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}, known_scalar(v.integer("axis", -1))},
            .attributes = {{"exclusive", int64_t{v.flag("exclusive", false)}},
                           {"reverse", int64_t{v.flag("reverse", false)}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "5"}},
            {{"shape", "1x1"}, {"exclusive", true}},
            {{"shape", "3x4"}, {"axis", 0}, {"exclusive", true}},
            {{"shape", "2x3x5"}, {"axis", -2}, {"reverse", true}},
            {{"shape", "4x7"}, {"exclusive", true}, {"reverse", true}},
            {{"shape", "16x1000"}}};
  }

 private:
  static Index axis(const Context& c) { return integers(c.input(1))[0]; }

  template <class T>
  void accumulate(const Line<T>& from, const Line<T>& to, bool reverse) const {
    T sum{};
    for (size_t i = 0; i < from.size(); ++i) {
      const size_t at = reverse ? from.size() - 1 - i : i;
      const T next = multiply_add(sum, from[at], T{1});
      to[at] = exclusive_ ? sum : next;
      sum = next;
    }
  }

  bool exclusive_, reverse_;
};

}  // namespace
D5_REGISTER(operators, "CumSum", CumSum);
}  // namespace d5
