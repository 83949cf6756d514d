// SPDX-License-Identifier: Apache-2.0
// Where the largest or smallest element of each line along an axis lies (ONNX ArgMax, ArgMin). Among equal ones the
// first counts, or the last with select_last_index; NaN counts as the largest and as the smallest, as numpy has it.
//   y = the i with x_i = max x      no gradient
#include <algorithm>

#include "d5/core/parallel.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/reduced_axes.hpp"

namespace d5 {
namespace {

template <bool largest>
class ArgExtreme final : public Operator {
 public:
  explicit ArgExtreme(const Attributes& a)
      : axis_(a.integer("axis", 0)), keepdims_(a.flag("keepdims", true)), last_(a.flag("select_last_index", false)) {
    check_attributes(a, {"axis", "keepdims", "select_last_index"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_type(in[0],
               {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64,
                DType::u8, DType::u16, DType::u32, DType::u64},
               place);
    const Shape& x = in[0].shape;
    const ReducedAxes axes(x, {axis_}, place);
    if (axes.reduced.elements() == 0)
      throw Error("{} axis {} of {} is empty: it has no {} element", place, axis_, to_string(x),
                  largest ? "largest" : "smallest");
    return with_known(*this, in, {{DType::i64, axes.result(x, keepdims_)}});
  }

  void forward(Context& c) const override {
    const ReducedAxes axes(c.input(0).shape(), {axis_}, place);
    const auto y = c.output(0).values<int64_t>();
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      const T* x = c.input(0).values<T>().data();
      parallel_for(axes.kept.elements(), 1 << 10, [&](Index first, Index last) {
        for (Index o = first; o < last; ++o) y[o] = winner(x + axes.kept(o), axes.reduced.steps[0]);
      });
    });
  }

  bool forward_at(const Context& c, size_t, std::span<const Index> at, std::span<double> values) const override {
    const ReducedAxes axes(c.input(0).shape(), {axis_}, place);
    with_compute_type(c.input(0).dtype(), [&]<class T>() {
      const T* x = c.input(0).values<T>().data();
      for (size_t i = 0; i < at.size(); ++i)
        values[i] = static_cast<double>(winner(x + axes.kept(at[i]), axes.reduced.steps[0]));
    });
    return true;
  }

  Cost cost(SpecSpan in, Pass) const override {
    const ReducedAxes axes(in[0].shape, {axis_}, place);
    return {static_cast<double>(in[0].elements()), in[0].bytes() + 8 * static_cast<double>(axes.kept.elements())};
  }

  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "128x1000"},
            {"axis", "axis that is searched", -1},
            {"keepdims", "the axis stays, with size 1", true},
            {"select_last_index", "the last of equal elements instead of the first", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .differentiable = false}},
            .attributes = {{"axis", v.integer("axis", -1)},
                           {"keepdims", int64_t{v.flag("keepdims", true)}},
                           {"select_last_index", int64_t{v.flag("select_last_index", false)}}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "7"}},
            {{"shape", "3x17"}, {"keepdims", false}},
            {{"shape", "5x3"}, {"axis", 0}, {"select_last_index", true}},
            {{"shape", "2x3x4x5"}, {"axis", 1}},
            {{"shape", "4x1"}},
            {{"shape", "3x9x5"}, {"axis", -2}, {"keepdims", false}, {"select_last_index", true}},
            {{"shape", "64x1000"}}};
  }

 private:
  static constexpr std::string_view place = largest ? "[arg_max]" : "[arg_min]";

  template <class T>
  Index winner(const T* x, const std::vector<Index>& steps) const {
    Index best = 0;
    for (Index i = 1; i < static_cast<Index>(steps.size()); ++i) {
      const T value = x[steps[i]], so_far = x[steps[best]];
      const bool is_nan = value != value, was_nan = so_far != so_far;
      const bool better = !was_nan && (is_nan || (largest ? value > so_far : value < so_far));
      if (better || (last_ && (value == so_far || (is_nan && was_nan)))) best = i;
    }
    return best;
  }

  Index axis_;
  bool keepdims_, last_;
};

}  // namespace
D5_REGISTER(operators, "ArgMax", ArgExtreme<true>);
D5_REGISTER(operators, "ArgMin", ArgExtreme<false>);
}  // namespace d5
