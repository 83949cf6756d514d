// SPDX-License-Identifier: Apache-2.0
// A stretch of a cache overwritten, at a place of its own for each sample of the batch (ONNX TensorScatter).
//   y = past; y[b, ..., (w_b + s) , ...] = update[b, ..., s, ...]      in mode circular: (w_b + s) mod the cache's size
//   d past = dy, zero where it was overwritten      d update = dy where it was written
#include <algorithm>

#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[tensor_scatter]";

class TensorScatter final : public Operator {
 public:
  explicit TensorScatter(const Attributes& a) : axis_(a.integer("axis", -2)) {
    check_attributes(a, {"axis", "mode"}, place);
    const std::string mode = a.text("mode", "linear");
    circular_ = mode == "circular";
    if (!circular_ && mode != "linear") throw UsageError("{} mode is '{}'; legal: linear, circular", place, mode);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 3, place);
    check_same_type(in.first(2), place);
    const Shape &cache = in[0].shape, &update = in[1].shape;
    const size_t axis = valid_axis(axis_, cache.rank(), place);
    if (axis == 0) throw Error("{} axis is {}: the first one counts the samples of the batch", place, axis_);
    bool fits = update.rank() == cache.rank();
    for (size_t i = 0; fits && i < cache.rank(); ++i) fits = i == axis ? update[i] <= cache[i] : update[i] == cache[i];
    if (!fits)
      throw Error("{} update is {} and the cache {}; they may differ in axis {} alone, where it is not longer", place,
                  to_string(update), to_string(cache), axis);
    if (has(in, 2)) {
      check_type(in[2], {DType::i64}, place);
      if (in[2].shape != Shape{cache[0]})
        throw Error("{} write_indices is {}; {} are wanted, one for each sample", place, to_string(in[2].shape),
                    cache[0]);
    }
    return {{in[0].dtype, cache}};
  }

  void forward(Context& c) const override {
    c.output(0).copy_from(c.input(0));
    with_element_type(c.output(0).dtype(), [&]<class T>() {
      const auto y = c.output(0).values<T>(), update = c.input(1).values<T>();
      for_each(c, [&](Index to, Index from) { y[to] = update[from]; });
    });
  }

  void backward(Context& c) const override {
    const auto dy = c.output_gradient(0).values<double>();
    if (c.input_gradient(0).present()) {
      c.input_gradient(0).copy_from(c.output_gradient(0));
      const auto past = c.input_gradient(0).values<double>();
      for_each(c, [&](Index to, Index) { past[to] = 0; });
    }
    if (c.input_gradient(1).present()) {
      const auto update = c.input_gradient(1).values<double>();
      for_each(c, [&](Index to, Index from) { update[from] = dy[to]; });
    }
  }

  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of the cache", "8x16x512x64"},
            {"length", "how many entries are written", 16},
            {"axis", "axis along which they lie", -2},
            {"circular", "go on at the beginning where the cache ends", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape cache = parse_shape(v.text("shape", ""));
    const size_t axis = valid_axis(v.integer("axis", -2), cache.rank(), place);
    std::vector<Index> update = cache.sizes();
    update[axis] = v.integer("length", 0);
    const bool circular = v.flag("circular", false);
    const Index last = circular ? cache[axis] - 1 : cache[axis] - update[axis];
    return {.inputs = {{.spec = {type, cache}},
                       {.spec = {type, Shape(update)}},
                       {.spec = {DType::i64, {cache[0]}},
                        .low = 0,
                        .high = static_cast<double>(last),
                        .differentiable = false}},
            .attributes = {{"axis", v.integer("axis", -2)}, {"mode", circular ? "circular" : "linear"}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "2x4x3"}, {"length", 1}},
            {{"shape", "3x2x5x4"}, {"length", 3}, {"circular", true}},
            {{"shape", "2x7"}, {"length", 4}, {"axis", 1}}};
  }

 private:
  // f(place in the cache, place in the update)
  template <class F>
  void for_each(const Context& c, F&& f) const {
    const Shape &cache = c.input(0).shape(), &update = c.input(1).shape();
    const size_t axis = valid_axis(axis_, cache.rank(), place);
    const Index inner = cache.elements(axis + 1, cache.rank()), outer = cache.elements(0, axis);
    const Index size = cache[axis], length = update[axis];
    for (Index o = 0; o < outer; ++o) {
      const Index sample = o / std::max<Index>(1, cache.elements(1, axis));
      const Index start = c.input(2).present() ? c.input(2).values<int64_t>()[sample] : 0;
      if (start < 0 || (!circular_ && start > size - length))
        throw Error("{} sample {} is written from {} on; {} entries do not fit into {}", place, sample, start, length,
                    size);
      for (Index s = 0; s < length; ++s) {
        const Index at = circular_ ? (start % size + s) % size : start + s;
        for (Index i = 0; i < inner; ++i) f((o * size + at) * inner + i, (o * length + s) * inner + i);
      }
    }
  }

  Index axis_;
  bool circular_ = false;
};

}  // namespace
D5_REGISTER(operators, "TensorScatter", TensorScatter);
}  // namespace d5
