// SPDX-License-Identifier: Apache-2.0
// Instance normalisation (Ulyanov et al., 2016; ONNX InstanceNormalization): each channel of each image by itself,
// scale and B per channel. Formulas and errors: normalization.hpp.
//   y = scale (x - mean) / s + B      s = sqrt(var + epsilon)
#include "d5/operators/checks.hpp"
#include "d5/operators/normalization.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[instance_normalization]";

class InstanceNormalization final : public Normalization {
 public:
  explicit InstanceNormalization(const Attributes& a) : Normalization(a.real("epsilon", 1e-5)) {
    check_attributes(a, {"epsilon"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 3, 3, place);
    check_same_type(in, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const Shape& x = in[0].shape;
    if (x.rank() < 3)
      throw Error("{} input is {}, of rank {}; images, channels and at least one more axis are wanted", place,
                  to_string(x), x.rank());
    for (const size_t i : {1, 2})
      if (in[i].shape != Shape{x[1]})
        throw Error("{} {} is {}; {} values are wanted, one for each channel of the input ({})", place,
                    i == 1 ? "scale" : "B", to_string(in[i].shape), x[1], to_string(x));
    return {{in[0].dtype, x}};
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X: N x C x ...", "16x64x56x56"}, {"epsilon", "added to the variance", 1e-5}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape shape = parse_shape(v.text("shape", ""));
    const TensorSpec channels{type, Shape{shape.rank() < 2 ? 1 : shape[1]}};
    return {.inputs = {{.spec = {type, shape}},
                       {.spec = channels, .parameter = true},
                       {.spec = channels, .parameter = true}},
            .attributes = {{"epsilon", v.real("epsilon", 1e-5)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "1x1x3"}},
            {{"shape", "2x3x4x5"}, {"epsilon", 1e-2}},
            {{"shape", "3x2x17"}},
            {{"shape", "2x5x3x2x3"}},
            {{"shape", "2x32x14x14"}}};
  }

 private:
  Rows rows(const Shape& x, const Shape&) const override {
    const Index length = x.elements(2, x.rank());
    return {.rows = x[0] * x[1],
            .length = length,
            .cycle = x[1],
            .advance = 1,
            .offset = std::vector<Index>(static_cast<size_t>(length), 0)};
  }
};

}  // namespace
D5_REGISTER(operators, "InstanceNormalization", InstanceNormalization);
}  // namespace d5
