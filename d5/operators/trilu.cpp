// SPDX-License-Identifier: Apache-2.0
// The upper or lower triangle of each matrix, zero elsewhere (ONNX Trilu). k moves the diagonal: to the right where it
// is positive.
//   y[i, j] = x[i, j] where j - i >= k (upper), j - i <= k (lower)      dx: the same of dy
#include "d5/operators/known.hpp"
#include "d5/operators/selection.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[trilu]";

class Trilu final : public Selection {
 public:
  explicit Trilu(const Attributes& a) : upper_(a.flag("upper", true)) { check_attributes(a, {"upper"}, place); }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X: ... x rows x columns", "32x512x512"},
            {"upper", "the upper triangle, or the lower", true},
            {"k", "number of the diagonal, as in -1; empty: no such input", ""}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const auto k = integer_list(v, "k");
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}},
                       k && k->size() == 1 ? known_scalar(k->front()) : absent_input()},
            .attributes = {{"upper", int64_t{v.flag("upper", true)}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "4x5"}},
            {{"shape", "3x3"}, {"upper", false}, {"k", "-1"}},
            {{"shape", "2x3x4"}, {"k", "2"}},
            {{"shape", "3x5"}, {"upper", false}, {"k", "1"}},
            {{"shape", "2x2"}, {"k", "7"}},
            {{"shape", "2x64x64"}, {"upper", false}}};
  }

 protected:
  Shape output_shape(SpecSpan in) const override {
    check_inputs(in, 1, 2, place);
    if (in[0].shape.rank() < 2)
      throw Error("{} X is {}, of rank {}; at least two axes are wanted", place, to_string(in[0].shape),
                  in[0].shape.rank());
    if (has(in, 1)) {
      check_index_type(in[1], "k", place);
      if (in[1].elements() != 1) throw Error("{} k has {} values; one is wanted", place, in[1].elements());
    }
    return in[0].shape;
  }

  Sources sources(SpecSpan in) const override {
    const Shape& x = in[0].shape;
    const Index rows = x[x.rank() - 2], columns = x.back(), k = has(in, 1) ? integers(*in[1].known)[0] : 0;
    Sources from;
    from.add_axis(x.elements(0, x.rank() - 2), rows * columns);
    from.add_axis(rows * columns, 1);
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < columns; ++j)
        if (upper_ ? j - i < k : j - i > k) from.steps.back()[i * columns + j] = Sources::none;
    return from;
  }

 private:
  bool upper_;
};

}  // namespace
D5_REGISTER(operators, "Trilu", Trilu);
}  // namespace d5
