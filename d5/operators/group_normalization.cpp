// SPDX-License-Identifier: Apache-2.0
// Group normalisation (Wu and He, 2018; ONNX GroupNormalization since opset 21): the channels of an image are
// normalised in num_groups groups, scale and bias per channel. Formulas and errors: normalization.hpp.
//   y = scale (x - mean) / s + bias      s = sqrt(var + epsilon)
#include "d5/operators/checks.hpp"
#include "d5/operators/normalization.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[group_normalization]";

class GroupNormalization final : public Normalization {
 public:
  explicit GroupNormalization(const Attributes& a)
      : Normalization(a.real("epsilon", 1e-5)), groups_(a.integer("num_groups", 0)) {
    stash_type(a, place);  // a kernel may compute in more than it says
    check_attributes(a, {"epsilon", "num_groups", "stash_type"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 3, 3, place);
    check_same_type(in, place);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    const Shape& x = in[0].shape;
    if (x.rank() < 2)
      throw Error("{} X is {}, of rank {}; images and channels are wanted", place, to_string(x), x.rank());
    if (groups_ < 1 || x[1] % groups_ != 0)
      throw Error("{} num_groups is {}; it must divide the {} channels of X ({})", place, groups_, x[1], to_string(x));
    for (const size_t i : {1, 2})
      if (in[i].shape != Shape{x[1]})
        throw Error("{} {} is {}; {} values are wanted, one for each channel of X ({})", place,
                    i == 1 ? "scale" : "bias", to_string(in[i].shape), x[1], to_string(x));
    return {{in[0].dtype, x}};
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X: N x C x ...", "16x64x56x56"},
            {"groups", "groups of channels", 32},
            {"epsilon", "added to the variance", 1e-5}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape shape = parse_shape(v.text("shape", ""));
    const TensorSpec channels{type, Shape{shape.rank() < 2 ? 1 : shape[1]}};
    return {.inputs = {{.spec = {type, shape}},
                       {.spec = channels, .parameter = true},
                       {.spec = channels, .parameter = true}},
            .attributes = {{"num_groups", v.integer("groups", 32)}, {"epsilon", v.real("epsilon", 1e-5)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "1x2x3"}, {"groups", 1}},     {{"shape", "2x6x3x5"}, {"groups", 2}, {"epsilon", 1e-2}},
            {{"shape", "2x4x7"}, {"groups", 4}},     {{"shape", "3x8"}, {"groups", 2}},
            {{"shape", "1x6x2x3x2"}, {"groups", 3}}, {{"shape", "2x64x14x14"}}};
  }

 private:
  Rows rows(const Shape& x, const Shape&) const override {
    const Index inner = x.elements(2, x.rank()), channels = x[1] / groups_;
    Rows r{.rows = x[0] * groups_, .length = channels * inner, .cycle = groups_, .advance = channels, .offset = {}};
    for (Index j = 0; j < r.length; ++j) r.offset.push_back(j / inner);
    return r;
  }

  Index groups_;
};

}  // namespace
D5_REGISTER(operators, "GroupNormalization", GroupNormalization);
}  // namespace d5
