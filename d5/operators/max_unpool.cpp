// SPDX-License-Identifier: Apache-2.0
// Values back to where MaxPool found them, zeros elsewhere (ONNX MaxUnpool). The indices count within the tensor that
// kernel_shape, strides and pads make; output_shape may be larger, and then holds it in its first corner.
//   y = 0; y[indices[i]] = x[i]      dx[i] = dy[indices[i]]
#include <algorithm>

#include "d5/operators/known.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[max_unpool]";

class MaxUnpool final : public Operator {
 public:
  explicit MaxUnpool(const Attributes& a)
      : kernel_(a.integers("kernel_shape")), strides_(a.integers("strides")), pads_(a.integers("pads")) {
    check_attributes(a, {"kernel_shape", "pads", "strides"}, place);
    if (strides_.empty()) strides_.assign(kernel_.size(), 1);
    if (pads_.empty()) pads_.assign(2 * kernel_.size(), 0);
    if (kernel_.empty() || strides_.size() != kernel_.size() || pads_.size() != 2 * kernel_.size())
      throw UsageError("{} kernel_shape has {} sizes, strides {}, pads {}; n, n and 2 n are wanted", place,
                       kernel_.size(), strides_.size(), pads_.size());
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 2, 3, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    check_type(in[1], {DType::i64}, place);
    if (in[0].shape != in[1].shape || in[0].shape.rank() != kernel_.size() + 2)
      throw Error("{} X is {} and the indices {}; one shape of {} axes is wanted", place, to_string(in[0].shape),
                  to_string(in[1].shape), kernel_.size() + 2);
    const Shape pooled = pooled_from(in[0].shape);
    if (!has(in, 2)) return {{in[0].dtype, pooled}};
    const auto sizes = known_integers(in[2], "output_shape", place);
    bool fits = sizes.size() == pooled.rank();
    for (size_t i = 0; fits && i < sizes.size(); ++i) fits = sizes[i] >= pooled[i];
    if (!fits) throw Error("{} output_shape does not hold {}, from which X was pooled", place, to_string(pooled));
    return {output_spec(in[0].dtype, sizes, place)};
  }

  void forward(Context& c) const override {
    const auto y = cleared_output(c.output(0));
    const auto x = c.input(0).values<double>();
    for_each(c, c.output(0).shape(), [&](size_t i, Index at) { y[at] = x[i]; });
  }

  void backward(Context& c) const override {
    if (!c.input_gradient(0).present()) return;
    const auto dy = c.output_gradient(0).values<double>(), dx = c.input_gradient(0).values<double>();
    for_each(c, c.output_gradient(0).shape(), [&](size_t i, Index at) { dx[i] = dy[at]; });
  }

  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 0, .exact = true}; }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "16x64x28x28"}, {"window", "kernel and stride of every axis but two", 2}};
  }

  // The first element of each window is its largest.
  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape x = parse_shape(v.text("shape", ""));
    const Index size = v.integer("window", 2);
    if (x.rank() < 3) throw UsageError("{} shape is {}; three axes at least are wanted", place, to_string(x));
    std::vector<Index> whole = x.sizes();
    for (size_t axis = 2; axis < whole.size(); ++axis) whole[axis] *= size;
    const auto strides = Shape(whole).strides();
    Tensor indices(DType::i64, x);
    for (Index i = 0; i < x.elements(); ++i) {
      Index rest = i, at = 0;
      for (size_t axis = x.rank(); axis-- > 0; rest /= x[axis])
        at += rest % x[axis] * (axis < 2 ? 1 : size) * strides[axis];
      indices.values<int64_t>()[i] = at;
    }
    const std::vector<Index> kernel(x.rank() - 2, size);
    return {.inputs = {{.spec = {type, x}}, {.spec = known_spec(indices), .differentiable = false}},
            .attributes = {{"kernel_shape", kernel}, {"strides", kernel}}};
  }

  static std::vector<Attributes> cases() { return {{{"shape", "1x1x2x2"}}, {{"shape", "2x3x5"}, {"window", 3}}}; }

 private:
  static std::span<double> cleared_output(const Tensor& y) {
    const auto values = y.values<double>();
    std::ranges::fill(values, 0.0);
    return values;
  }

  Shape pooled_from(const Shape& x) const {
    std::vector<Index> sizes = x.sizes();
    for (size_t i = 0; i < kernel_.size(); ++i)
      if (__builtin_mul_overflow(x[i + 2] - 1, strides_[i], &sizes[i + 2]) ||
          __builtin_add_overflow(sizes[i + 2], kernel_[i], &sizes[i + 2]) ||
          __builtin_sub_overflow(sizes[i + 2], pads_[i], &sizes[i + 2]) ||
          __builtin_sub_overflow(sizes[i + 2], pads_[kernel_.size() + i], &sizes[i + 2]))
        throw Error("{} stride {} and kernel {} make an axis of {} too long", place, strides_[i], kernel_[i], x[i + 2]);
    return output_spec(DType::f64, std::move(sizes), place).shape;
  }

  // f(element of X, place in Y)
  template <class F>
  void for_each(const Context& c, const Shape& y, F&& f) const {
    const Shape pooled = pooled_from(c.input(0).shape());
    const auto strides = y.strides();
    const auto indices = c.input(1).values<int64_t>();
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || indices[i] >= pooled.elements())
        throw Error("{} index {} is {}; 0 to {} are legal", place, i, indices[i], pooled.elements() - 1);
      Index rest = indices[i], at = 0;
      for (size_t axis = pooled.rank(); axis-- > 0; rest /= pooled[axis]) at += rest % pooled[axis] * strides[axis];
      f(i, at);
    }
  }

  std::vector<Index> kernel_, strides_, pads_;
};

}  // namespace
D5_REGISTER(operators, "MaxUnpool", MaxUnpool);
}  // namespace d5
