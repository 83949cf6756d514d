// SPDX-License-Identifier: Apache-2.0
// Columns of blocks summed back into an image (ONNX Col2Im): what lowers a convolution, turned round. X is batch x
// (channels taps) x blocks; block o of a channel lies at the places s(o, t) of the window that a convolution would
// slide.
//   y[n, c, i] = sum of x[n, (c, t), o] over s(o, t) = i      dx[n, (c, t), o] = dy[n, c, s(o, t)], zero in the padding
#include "d5/operators/known.hpp"
#include "d5/operators/magnitude.hpp"
#include "d5/operators/window.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[col2im]";

class Col2Im final : public Operator {
 public:
  explicit Col2Im(const Attributes& a) : attributes_(a) {
    check_attributes(a, {"dilations", "pads", "strides"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 3, 3, place);
    check_rank(in[0], "X", 3, place);
    check_type(in[0],
               {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64,
                DType::u8, DType::u16, DType::u32, DType::u64},
               place);
    const Window w = window(in);
    const Shape& x = in[0].shape;
    if (x[1] % w.taps() != 0 || x[2] != w.output_elements())
      throw Error("{} X is {}; a multiple of {} taps and {} blocks are wanted", place, to_string(x), w.taps(),
                  w.output_elements());
    std::vector<Index> sizes{x[0], x[1] / w.taps()};
    for (const Index size : w.input_sizes()) sizes.push_back(size);
    return {output_spec(in[0].dtype, std::move(sizes), place)};
  }

  void forward(Context& c) const override {
    const Window w = window(known_specs(c.inputs));
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      const auto x = c.input(0).values<T>(), y = c.output(0).values<T>();
      std::fill(y.begin(), y.end(), T{});
      for_each(w, c.input(0).shape(),
               [&](Index column, Index image) { y[image] = static_cast<T>(y[image] + x[column]); });
    });
  }

  void backward(Context& c) const override {
    if (!c.input_gradient(0).present()) return;
    const Window w = window(known_specs(c.inputs));
    const auto dx = cleared(c.input_gradient(0)), dy = c.output_gradient(0).values<double>();
    for_each(w, c.input(0).shape(), [&](Index column, Index image) { dx[column] = dy[image]; });
  }

  Cost cost(SpecSpan in, Pass) const override {
    return {static_cast<double>(in[0].elements()), in[0].bytes() + infer(in)[0].bytes()};
  }
  Rounding rounding(SpecSpan in, Pass pass, size_t) const override {
    return {.terms = pass == Pass::forward ? window(in).most_readers() : 0, .units = 0, .exact = true};
  }

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all{{"n", "images", 16},
                               {"c", "channels", 64},
                               {"size", "image sizes: 2 or 3 of them", "28x28"},
                               {"block", "block sizes", "3x3"}};
    for (Parameter& parameter : window_parameters())
      if (parameter.name != "auto_pad") all.push_back(std::move(parameter));
    return all;
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const auto size = window_sizes(v, "size"), block = sizes(v, "block", size.size());
    Attributes a = window_attributes(v, size.size());
    a.erase("auto_pad");
    const Window w(a, size, block, place);
    return {.inputs = {{.spec = {type, {v.integer("n", 0), v.integer("c", 0) * w.taps(), w.output_elements()}}},
                       known_input(size),
                       known_input(block)},
            .attributes = a};
  }

  static std::vector<Attributes> cases() {
    return {{{"n", 1}, {"c", 1}, {"size", "5x5"}, {"block", "1x5"}},
            {{"n", 2}, {"c", 3}, {"size", "6x5"}, {"block", "2x3"}, {"stride", "2x1"}, {"pad", "1"}},
            {{"n", 1}, {"c", 2}, {"size", "4x5x3"}, {"block", "2x2x2"}, {"dilation", "2x1x1"}}};
  }

 private:
  Window window(SpecSpan in) const {
    const auto image = known_integers(in[1], "image_shape", place), block = known_integers(in[2], "block_shape", place);
    if (image.size() != block.size())
      throw Error("{} image_shape has {} sizes and block_shape {}; as many are wanted", place, image.size(),
                  block.size());
    return {attributes_, image, block, place};
  }

  // f(element of the columns, element of the image)
  template <class F>
  static void for_each(const Window& w, const Shape& x, F&& f) {
    const Index planes = x[0] * x[1] / w.taps(), blocks = w.output_elements();
    for (Index plane = 0; plane < planes; ++plane)
      for (Index o = 0; o < blocks; ++o)
        w.for_each_tap(
            o, [&](Index i, Index tap) { f((plane * w.taps() + tap) * blocks + o, plane * w.input_elements() + i); });
  }

  Attributes attributes_;
};

}  // namespace
D5_REGISTER(operators, "Col2Im", Col2Im);
}  // namespace d5
