// SPDX-License-Identifier: Apache-2.0
// Dropout (Srivastava et al., 2014; ONNX Dropout). Inputs ratio (0.5 where absent) and training_mode (false) are
// scalars.
//   y = x mask / (1 - ratio)      dx = dy mask / (1 - ratio)      mask: random number >= ratio (dropout.hpp)
// Not in training, y = x and the mask is all true. A ratio of 1 gives zeros.
#include "d5/operators/dropout.hpp"

#include "d5/operators/elementwise.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[dropout]";

class Dropout final : public Operator {
 public:
  explicit Dropout(const Attributes& a) : seed_(a.integer("seed", 0)) { check_attributes(a, {"seed"}, place); }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 3, place);
    check_type(in[0], float_types, place);
    if (has(in, 1)) {
      check_type(in[1], float_types, place);
      check_rank(in[1], "ratio", 0, place);
    }
    if (has(in, 2)) {
      check_type(in[2], bool_types, place);
      check_rank(in[2], "training_mode", 0, place);
    }
    return {{in[0].dtype, in[0].shape}, {DType::boolean, in[0].shape}};
  }

  void forward(Context& c) const override {
    const Tensor& x = c.input(0);
    const double keep = 1 - ratio(c);
    const Tensor mask(DType::boolean, x.shape());
    const auto kept = mask.values<bool>();
    const auto from = x.values<double>(), y = c.output(0).values<double>();
    const DropoutNumbers numbers(seed_, c.position);
    const Index inner = x.shape().rank() == 0 ? 1 : x.shape().elements(1, x.shape().rank());
    for_each_element(x.elements(), [&](Index i) {
      kept[i] = keep == 1 || numbers.at(i / inner, i % inner) >= 1 - keep;
      y[i] = kept[i] ? from[i] / keep : 0;
    });
    if (c.output(1).present()) c.output(1).copy_from(mask);
    c.saved = {mask};
  }

  void backward(Context& c) const override {
    if (!c.input_gradient(0).present()) return;
    const auto kept = c.saved.at(0).values<bool>();
    const auto dy = c.output_gradient(0).values<double>(), dx = c.input_gradient(0).values<double>();
    const double keep = 1 - ratio(c);
    for (size_t i = 0; i < dx.size(); ++i) dx[i] = kept[i] ? dy[i] / keep : 0;
  }

  // A comparison, a product. The mask is not compulsory: backward could make it again.
  Cost cost(SpecSpan in, Pass) const override {
    return {2.0 * static_cast<double>(in[0].elements()), 2 * in[0].bytes()};
  }

  // 1 - ratio, its reciprocal, the product.
  Rounding rounding(SpecSpan, Pass, size_t) const override { return {.terms = 0, .units = 3}; }

  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    Tensor scale = (pass == Pass::forward ? c.output(index) : c.input_gradient(0)).cast(DType::f64);
    for (double& value : scale.values<double>()) value = std::abs(value);
    return scale;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X: samples along the first axis", "64x4096"},
            {"ratio", "share that is dropped", 0.5},
            {"training", "drop at all", true},
            {"mask", "the mask is asked for, too", false},
            {"mask_seed", "seed of the mask", 0}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const double ratio = v.real("ratio", 0.5);
    const bool training = v.flag("training", true);
    OperatorCase one;
    one.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}},
                  {.spec = {DType::f32, Shape{}}, .low = ratio, .high = ratio, .differentiable = false},
                  {.spec = {DType::boolean, Shape{}},
                   .low = training ? 1.0 : 0.0,
                   .high = training ? 1.0 : 0.0,
                   .differentiable = false}};
    for (const size_t i : {1, 2})
      one.inputs[i].spec.known =
          std::make_shared<const Tensor>(Tensor::scalar(one.inputs[i].low, one.inputs[i].spec.dtype));
    one.attributes = {{"seed", v.integer("mask_seed", 0)}};
    one.outputs = v.flag("mask", false) ? 2 : 1;
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "scalar"}, {"training", false}},
            {{"shape", "17"}},
            {{"shape", "3x5x7"}, {"ratio", 0.25}, {"mask", true}},
            {{"shape", "3x5x7"}, {"ratio", 0.9}, {"mask_seed", 3}},
            {{"shape", "5x4"}, {"ratio", 0.0}},
            {{"shape", "5x4"}, {"training", false}, {"mask", true}},
            {{"shape", "32x1024"}, {"ratio", 0.1}}};
  }

 private:
  // 0 where nothing is dropped.
  static double ratio(const Context& c) {
    const bool training = c.input(2).present() && c.input(2).values<bool>()[0];
    const double ratio = c.input(1).present() ? c.input(1).values<double>()[0] : 0.5;
    if (!(ratio >= 0 && ratio <= 1)) throw Error("{} ratio is {}; 0 to 1 are legal", place, ratio);
    return training ? ratio : 0;
  }

  int64_t seed_;
};

}  // namespace
D5_REGISTER(operators, "Dropout", Dropout);
}  // namespace d5
