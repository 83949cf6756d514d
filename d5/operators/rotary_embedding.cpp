// SPDX-License-Identifier: Apache-2.0
// Rotary positions (Su et al., 2021; ONNX RotaryEmbedding): pairs of the first r elements of a head are turned by an
// angle that depends on the position; the others stay. A pair is (i, i + r/2), interleaved (2 i, 2 i + 1).
//   y1 = cos x1 - sin x2      y2 = sin x1 + cos x2      dx is dy turned back
// X is batch x heads x length x size, or batch x length x (heads size). cos and sin are length x r/2 for each sample,
// or a table from which position_ids choose. No gradient for the tables.
#include <algorithm>
#include <cmath>

#include "d5/operators/checks.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[rotary_embedding]";

class RotaryEmbedding final : public Operator {
 public:
  explicit RotaryEmbedding(const Attributes& a)
      : interleaved_(a.flag("interleaved", false)),
        heads_(a.integer("num_heads", 0)),
        part_(a.integer("rotary_embedding_dim", 0)) {
    check_attributes(a, {"interleaved", "num_heads", "rotary_embedding_dim"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 3, 4, place);
    check_same_type(in.first(3), place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const Sizes s = sizes(in[0].shape);
    if (s.rotated < 2 || s.rotated % 2 != 0 || s.rotated > s.size)
      throw Error("{} {} of {} elements of a head are turned; an even number of them is wanted", place, s.rotated,
                  s.size);
    for (const size_t i : {1, 2}) {
      const Shape& cache = in[i].shape;
      const bool table = has(in, 3) && cache.rank() == 2 && cache[1] == s.rotated / 2;
      if (!table && (has(in, 3) || cache != Shape{s.batch, s.length, s.rotated / 2}))
        throw Error("{} {} is {}; {} is wanted, or a table with {} columns and position_ids", place,
                    i == 1 ? "cos_cache" : "sin_cache", to_string(cache),
                    to_string(Shape{s.batch, s.length, s.rotated / 2}), s.rotated / 2);
    }
    if (in[1].shape != in[2].shape)
      throw Error("{} cos_cache is {} and sin_cache {}; one shape is wanted", place, to_string(in[1].shape),
                  to_string(in[2].shape));
    if (has(in, 3)) {
      check_type(in[3], {DType::i64}, place);
      if (in[3].shape != Shape{s.batch, s.length})
        throw Error("{} position_ids is {}; {}x{} is wanted", place, to_string(in[3].shape), s.batch, s.length);
    }
    return {{in[0].dtype, in[0].shape}};
  }

  void forward(Context& c) const override {
    turn(c, c.input(0), c.output(0), [](double cos, double sin) { return std::pair(cos, sin); });
  }
  void backward(Context& c) const override {
    if (c.input_gradient(0).present())
      turn(c, c.output_gradient(0), c.input_gradient(0), [](double cos, double sin) { return std::pair(cos, -sin); });
  }

  Cost cost(SpecSpan in, Pass) const override {
    const Sizes s = sizes(in[0].shape);
    const double turned = static_cast<double>(s.rotated) / static_cast<double>(std::max<Index>(1, s.size));
    return {3 * turned * static_cast<double>(in[0].elements()), input_bytes(in) + in[0].bytes()};
  }
  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 2, .units = 1, .exact = true}; }
  // On absolute values the difference would cancel.
  Tensor magnitude(const Context& c, Pass pass, size_t) const override {
    const Tensor& from = pass == Pass::forward ? c.input(0) : c.output_gradient(0);
    Tensor scale(DType::f64, from.shape()), absolute = from.clone();
    for (double& value : absolute.values<double>()) value = std::abs(value);
    turn(
        c, absolute, scale, [](double cos, double sin) { return std::pair(std::abs(cos), std::abs(sin)); }, true);
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"batch", "samples", 8},
            {"heads", "heads", 12},
            {"length", "positions", 128},
            {"size", "size of a head", 64},
            {"part", "how many of its elements are turned; 0: all", 0},
            {"packed", "three axes: heads lie within the last one", false},
            {"interleaved", "pairs are neighbours", false},
            {"positions", "choose from a table", false}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Index n = v.integer("batch", 0), heads = v.integer("heads", 0), length = v.integer("length", 0);
    const Index size = v.integer("size", 0), part = v.integer("part", 0), half = (part == 0 ? size : part) / 2;
    const bool packed = v.flag("packed", false), table = v.flag("positions", false);
    const OperatorInput cache{.spec = {type, table ? Shape{2 * length, half} : Shape{n, length, half}},
                              .differentiable = false};
    OperatorCase one{
        .inputs = {{.spec = {type, packed ? Shape{n, length, heads * size} : Shape{n, heads, length, size}}},
                   cache,
                   cache},
        .attributes = {{"interleaved", int64_t{v.flag("interleaved", false)}}, {"rotary_embedding_dim", part}}};
    if (packed) one.attributes.set("num_heads", heads);
    if (table)
      one.inputs.push_back({.spec = {DType::i64, {n, length}},
                            .low = 0,
                            .high = static_cast<double>(2 * length - 1),
                            .differentiable = false});
    return one;
  }

  static std::vector<Attributes> cases() {
    return {
        {{"batch", 2}, {"heads", 2}, {"length", 3}, {"size", 4}},
        {{"batch", 1}, {"heads", 3}, {"length", 2}, {"size", 6}, {"part", 4}, {"packed", true}, {"positions", true}},
        {{"batch", 2}, {"heads", 1}, {"length", 5}, {"size", 4}, {"interleaved", true}}};
  }

 private:
  struct Sizes {
    Index batch, heads, length, size, rotated;
    bool packed;
  };

  Sizes sizes(const Shape& x) const {
    if (x.rank() != 3 && x.rank() != 4) throw Error("{} X is {}; 3 or 4 axes are wanted", place, to_string(x));
    const bool packed = x.rank() == 3;
    if (packed && (heads_ < 1 || x[2] % heads_ != 0))
      throw Error("{} num_heads is {}; it must divide the last axis of X, {}", place, heads_, to_string(x));
    const Index size = packed ? x[2] / heads_ : x[3];
    return {x[0], packed ? heads_ : x[1], packed ? x[1] : x[2], size, part_ == 0 ? size : part_, packed};
  }

  // `add`: the terms are added, never taken off (they are absolute values).
  template <class F>
  void turn(const Context& c, const Tensor& from, const Tensor& to, F&& angle, bool add = false) const {
    const Sizes s = sizes(from.shape());
    const Index half = s.rotated / 2, positions = c.input(1).shape()[0];
    to.copy_from(from);
    const auto x = from.values<double>(), y = to.values<double>();
    const auto cos_of = c.input(1).values<double>(), sin_of = c.input(2).values<double>();
    for (Index b = 0; b < s.batch; ++b)
      for (Index t = 0; t < s.length; ++t) {
        Index row = b * s.length + t;
        if (c.input(3).present()) {
          row = c.input(3).values<int64_t>()[row];
          if (row < -positions || row >= positions)
            throw Error("{} a position is {}; the tables have {} rows", place, row, positions);
          row += row < 0 ? positions : 0;
        }
        for (Index h = 0; h < s.heads; ++h) {
          const Index start = (s.packed ? (b * s.length + t) * s.heads + h : (b * s.heads + h) * s.length + t) * s.size;
          for (Index i = 0; i < half; ++i) {
            const Index first = start + (interleaved_ ? 2 * i : i), second = interleaved_ ? first + 1 : first + half;
            const auto turned = angle(cos_of[row * half + i], sin_of[row * half + i]);
            const double cos = turned.first, sin = turned.second;
            y[first] = add ? cos * x[first] + sin * x[second] : cos * x[first] - sin * x[second];
            y[second] = sin * x[first] + cos * x[second];
          }
        }
      }
  }

  bool interleaved_;
  Index heads_, part_;
};

}  // namespace
D5_REGISTER(operators, "RotaryEmbedding", RotaryEmbedding);
}  // namespace d5
