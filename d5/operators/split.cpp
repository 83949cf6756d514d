// SPDX-License-Identifier: Apache-2.0
// One tensor cut into several along one axis (ONNX Split, opset 18): sizes from the input `split`, or num_outputs parts
// of which the last may be smaller.
//   [y0, y1, ...] = x      dx = [dy0, dy1, ...]
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "d5/operators/known.hpp"
#include "d5/operators/magnitude.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[split]";

class Split final : public Operator {
 public:
  explicit Split(const Attributes& a) : axis_(a.integer("axis", 0)), parts_(a.integer("num_outputs", 0)) {
    check_attributes(a, {"axis", "num_outputs"}, place);
    if (a.has("num_outputs") && parts_ < 1) throw Error("{} num_outputs is {}; at least 1 is wanted", place, parts_);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 2, place);
    std::vector<TensorSpec> out;
    std::vector<Index> shape = in[0].shape.sizes();
    for (const Index size : sizes_of(in)) {
      shape[valid_axis(axis_, shape.size(), place)] = size;
      out.push_back({in[0].dtype, Shape(shape)});
    }
    return with_known(*this, in, std::move(out));
  }

  void forward(Context& c) const override {
    with_element_type(c.input(0).dtype(), [&]<class T>() {
      const auto x = c.input(0).values<T>();
      for_each_part(c, [&](size_t k, Index whole, Index part, Index count) {
        if (c.output(k).present()) std::ranges::copy(x.subspan(whole, count), c.output(k).values<T>().begin() + part);
      });
    });
  }

  void backward(Context& c) const override {
    if (!c.input_gradient(0).present()) return;
    const auto dx = cleared(c.input_gradient(0));
    for_each_part(c, [&](size_t k, Index whole, Index part, Index count) {
      if (c.output_gradient(k).present())
        std::ranges::copy(c.output_gradient(k).values<double>().subspan(part, count), dx.begin() + whole);
    });
  }

  Cost cost(SpecSpan in, Pass) const override { return {0, 2 * in[0].bytes() + input_bytes(in.subspan(1))}; }

  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "32x128x2304"},
            {"axis", "axis that is cut", -1},
            {"split", "size of each part, as in 2x4; empty: num_outputs parts", ""},
            {"num_outputs", "number of parts where split is empty", 3}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    OperatorCase one{.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}}, list_input(v, "split")},
                     .attributes = {{"axis", v.integer("axis", -1)}}};
    const auto split = integer_list(v, "split");
    one.outputs = split ? split->size() : static_cast<size_t>(v.integer("num_outputs", 3));
    one.differentiable_outputs = one.outputs;
    if (!split) one.attributes.set("num_outputs", v.integer("num_outputs", 3));
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "6"}, {"axis", 0}},
            {{"shape", "7"}, {"axis", 0}, {"num_outputs", 4}},
            {{"shape", "2x6"}, {"axis", 1}, {"split", "2x4"}},
            {{"shape", "3x5x4"}, {"axis", -2}, {"split", "1x0x4"}},
            {{"shape", "5x3"}, {"axis", 0}, {"num_outputs", 1}},
            {{"shape", "4x32x96"}}};
  }

 private:
  std::vector<Index> sizes_of(SpecSpan in) const {
    const Shape& x = in[0].shape;
    const Index size = x[valid_axis(axis_, x.rank(), place)];
    if (has(in, 1) == (parts_ > 0))
      throw Error("{} exactly one of the input split and the attribute num_outputs is wanted", place);
    if (has(in, 1)) {
      auto sizes = known_integers(in[1], "split", place);
      // Compared one by one: their sum may overflow.
      Index rest = size;
      for (const Index part : sizes) rest = part < 0 || part > rest ? -1 : rest - part;
      if (rest != 0 || sizes.empty())
        throw Error("{} split is {}; sizes that add up to {} are wanted, axis {} of {}", place, fmt::join(sizes, ","),
                    size, axis_, to_string(x));
      return sizes;
    }
    const Index each = size / parts_ + (size % parts_ != 0);
    if (each * (parts_ - 1) > size)
      throw Error("{} {} elements along axis {} cannot be cut into {} parts of {} and a smaller last one", place, size,
                  axis_, parts_, each);
    std::vector<Index> sizes(static_cast<size_t>(parts_), each);
    sizes.back() = size - each * (parts_ - 1);
    return sizes;
  }

  // f(output, place in x, place in the output, count) for each run of neighbours.
  template <class F>
  void for_each_part(const Context& c, F&& f) const {
    const Shape& x = c.input(0).shape();
    const size_t axis = valid_axis(axis_, x.rank(), place);
    const Index outer = x.elements(0, axis), inner = x.elements(axis + 1, x.rank());
    const auto sizes = sizes_of(known_specs(c.inputs));
    for (Index i = 0, whole = 0; i < outer; ++i)
      for (size_t k = 0; k < sizes.size(); ++k) {
        const Index count = sizes[k] * inner;
        f(k, whole, i * count, count);
        whole += count;
      }
  }

  Index axis_, parts_;
};

}  // namespace
D5_REGISTER(operators, "Split", Split);
}  // namespace d5
