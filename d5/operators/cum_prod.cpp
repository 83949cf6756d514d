// SPDX-License-Identifier: Apache-2.0
// Running products along an axis (ONNX CumProd). `exclusive` leaves the element itself out, `reverse` starts at the
// end.
//   y_i = product of x_j over j <= i      dx_j = sum over i >= j of dy_i times the product of all x_k, k <= i, but x_j
#include "d5/operators/known.hpp"
#include "d5/operators/lines.hpp"
#include "d5/operators/product.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[cum_prod]";

class CumProd final : public Operator {
 public:
  explicit CumProd(const Attributes& a) : exclusive_(a.flag("exclusive", false)), reverse_(a.flag("reverse", false)) {
    check_attributes(a, {"exclusive", "reverse"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 2, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u32, DType::u64},
               place);
    check_index_type(in[1], "axis", place);
    if (in[1].elements() != 1) throw Error("{} axis has {} values; one is wanted", place, in[1].elements());
    if (in[1].known) valid_axis(integers(*in[1].known)[0], in[0].shape.rank(), place);
    return {{in[0].dtype, in[0].shape}};
  }

  void forward(Context& c) const override {
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      for (auto [x, y] : lines<T>(axis(c), c.input(0), c.output(0))) {
        T product{1};
        for (size_t i = 0; i < x.size(); ++i) {
          const size_t at = reverse_ ? x.size() - 1 - i : i;
          const T next = multiply_add(T{}, product, x[at]);
          y[at] = exclusive_ ? product : next;
          product = next;
        }
      }
    });
  }

  // Without a division, so that zeros do no harm: for each j, the products that hold x_j, with x_j left out.
  void backward(Context& c) const override {
    if (!c.input_gradient(0).present()) return;
    for (auto [x, dy, dx] : lines<double>(axis(c), c.input(0), c.output_gradient(0), c.input_gradient(0))) {
      const size_t size = x.size();
      const auto at = [&](size_t i) { return reverse_ ? size - 1 - i : i; };
      double before = 1;  // the product of all elements before j
      for (size_t j = 0; j < size; ++j) {
        double product = before, sum = 0;
        for (size_t i = j; i < size; ++i) {
          if (exclusive_ && i > j) sum += dy[at(i)] * product;
          if (i > j) product *= x[at(i)];
          if (!exclusive_) sum += dy[at(i)] * product;
        }
        dx[at(j)] = sum;
        before *= x[at(j)];
      }
    }
  }

  Cost cost(SpecSpan in, Pass) const override {
    return {static_cast<double>(in[0].elements()), 2 * in[0].bytes() + in[1].bytes()};
  }

  // A product of n factors, each rounding relative to it; backward sums up to n of them.
  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    Index longest = 0;
    for (const Index size : in[0].shape) longest = std::max(longest, size);
    return {.terms = pass == Pass::backward ? static_cast<double>(longest) : 0,
            .units = static_cast<double>(longest),
            .exact = false};
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "128x1000"},
            {"axis", "axis along which products run", -1},
            {"exclusive", "leave out the element itself", false},
            {"reverse", "start at the end", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .low = 0.5, .high = 1.5},
                       known_scalar(v.integer("axis", -1))},
            .attributes = {{"exclusive", int64_t{v.flag("exclusive", false)}},
                           {"reverse", int64_t{v.flag("reverse", false)}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "5"}},
            {{"shape", "3x4"}, {"axis", 0}, {"exclusive", true}},
            {{"shape", "2x3x5"}, {"axis", -2}, {"reverse", true}},
            {{"shape", "4x7"}, {"exclusive", true}, {"reverse", true}},
            {{"shape", "16x32"}}};
  }

 private:
  static Index axis(const Context& c) { return integers(c.input(1))[0]; }

  bool exclusive_, reverse_;
};

}  // namespace
D5_REGISTER(operators, "CumProd", CumProd);
}  // namespace d5
