// SPDX-License-Identifier: Apache-2.0
// The coordinates of all elements that are not zero (ONNX NonZero), in row-major order. No gradient.
//   y[:, i] = the coordinates of the i-th such element
// How many there are only the values tell: infer() needs a known input. forward() makes an output of its own shape.
#include <algorithm>

#include "d5/core/rng.hpp"
#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[non_zero]";

class NonZero final : public Operator {
 public:
  explicit NonZero(const Attributes& a) { check_attributes(a, {}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    if (!in[0].known)
      throw UnknownValue("{} the value of X must be known before the run: the shape of the result depends on it",
                         place);
    const auto found = elements(*in[0].known);
    return with_known(*this, in,
                      {output_spec(DType::i64, {rank(in[0].shape), static_cast<Index>(found.size())}, place)});
  }

  void forward(Context& c) const override {
    const auto found = elements(c.input(0));
    const Shape& x = c.input(0).shape();
    const auto count = static_cast<Index>(found.size());
    const auto y = c.output(0, DType::i64, Shape{rank(x), count}).values<int64_t>();
    for (Index i = 0; i < count; ++i) {
      Index rest = found[i];
      for (Index axis = rank(x); axis-- > 0;) {
        const Index size = x.rank() == 0 ? 1 : x[axis];
        y[axis * count + i] = rest % size;
        rest /= size;
      }
    }
  }

  Cost cost(SpecSpan in, Pass) const override {
    return {static_cast<double>(in[0].elements()), in[0].bytes() + infer(in)[0].bytes()};
  }

  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X; about a third of its values are zero", "128x1000"}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    Tensor x(type, parse_shape(v.text("shape", "")));
    fill_integers(x, Rng(17), type == DType::boolean ? 0 : -1, 1);
    return {.inputs = {{.spec = known_spec(x), .differentiable = false}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "7"}}, {{"shape", "3x4"}}, {{"shape", "2x3x5"}}, {{"shape", "16x100"}}};
  }

 private:
  static Index rank(const Shape& x) { return std::max<Index>(1, static_cast<Index>(x.rank())); }  // as numpy has it

  static std::vector<Index> elements(const Tensor& x) {
    const Tensor flags = x.cast(DType::boolean);
    std::vector<Index> found;
    for (Index i = 0; i < x.elements(); ++i)
      if (flags.values<bool>()[i]) found.push_back(i);
    return found;
  }
};

}  // namespace
D5_REGISTER(operators, "NonZero", NonZero);
}  // namespace d5
