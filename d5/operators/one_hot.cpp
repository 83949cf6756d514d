// SPDX-License-Identifier: Apache-2.0
// Classes as vectors (ONNX OneHot) along a new axis of size `depth`. values holds off and on; negative indices count
// from the end, and one out of range makes all of its vector off.
//   y[a, j, b] = on where j = indices[a, b], else off
//   d on = sum of dy where y is on      d off = sum of dy elsewhere
#include <algorithm>

#include "d5/operators/known.hpp"
#include "d5/operators/magnitude.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[one_hot]";

class OneHot final : public Operator {
 public:
  explicit OneHot(const Attributes& a) : axis_(a.integer("axis", -1)) { check_attributes(a, {"axis"}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 3, 3, place);
    if (in[2].shape != Shape{2})
      throw Error("{} values are {}; two are wanted, off and on", place, to_string(in[2].shape));
    if (in[1].elements() != 1) throw Error("{} depth has {} values; one is wanted", place, in[1].elements());
    if (!in[1].known) throw UnknownValue("{} the value of depth must be known before the run; it is not", place);
    const Index depth = in[1].known->cast(DType::i64).values<int64_t>()[0];
    if (depth < 1) throw Error("{} depth is {}; at least 1 is wanted", place, depth);
    std::vector<Index> sizes = in[0].shape.sizes();
    const size_t axis = valid_axis(axis_, sizes.size() + 1, place);
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axis), depth);
    return with_known(*this, in, {output_spec(in[2].dtype, std::move(sizes), place)});
  }

  void forward(Context& c) const override {
    with_element_type(c.output(0).dtype(), [&]<class T>() {
      const auto y = c.output(0).values<T>(), values = c.input(2).values<T>();
      for_each(c, c.output(0).shape(), [&](Index i, bool on) { y[i] = values[on ? 1 : 0]; });
    });
  }

  void backward(Context& c) const override {
    if (!c.input_gradient(2).present()) return;
    const auto sums = cleared(c.input_gradient(2)), dy = c.output_gradient(0).values<double>();
    for_each(c, c.output_gradient(0).shape(), [&](Index i, bool on) { sums[on ? 1 : 0] += dy[i]; });
  }

  Cost cost(SpecSpan in, Pass pass) const override {
    const TensorSpec y = infer(in)[0];
    const double sums = pass == Pass::backward ? static_cast<double>(y.elements()) : 0;
    return {sums, input_bytes(in) + y.bytes()};
  }

  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    const double terms = pass == Pass::backward ? static_cast<double>(infer(in)[0].elements()) : 0;
    return {.terms = terms, .units = 0, .exact = true};
  }

  static std::vector<Parameter> parameters() {
    return {{"indices", "shape of the indices", "128"},
            {"depth", "number of classes", 1000},
            {"axis", "where the new axis comes", -1}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const auto depth = static_cast<double>(v.integer("depth", 1000));
    return {.inputs = {{.spec = {DType::i64, parse_shape(v.text("indices", ""))},
                        .low = -depth - 1,
                        .high = depth,
                        .differentiable = false},
                       known_scalar(v.integer("depth", 1000)),
                       {.spec = {type, {2}}}},
            .attributes = {{"axis", v.integer("axis", -1)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"indices", "5"}, {"depth", 3}},
            {{"indices", "scalar"}, {"depth", 4}, {"axis", 0}},
            {{"indices", "2x3"}, {"depth", 5}, {"axis", 1}},
            {{"indices", "2x3"}, {"depth", 1}, {"axis", -3}},
            {{"indices", "32"}, {"depth", 100}}};
  }

 private:
  // f(element of y, whether it is on)
  template <class F>
  void for_each(const Context& c, const Shape& y, F&& f) const {
    const size_t axis = valid_axis(axis_, y.rank(), place);
    const Index depth = y[axis], inner = y.elements(axis + 1, y.rank());
    const Tensor wide = c.input(0).cast(DType::i64);
    const auto indices = wide.values<int64_t>();
    for (Index i = 0; i < y.elements(); ++i) {
      const Index index = indices[i / (depth * inner) * inner + i % inner], class_of = i / inner % depth;
      f(i, class_of == (index < 0 ? index + depth : index));
    }
  }

  Index axis_;
};

}  // namespace
D5_REGISTER(operators, "OneHot", OneHot);
}  // namespace d5
