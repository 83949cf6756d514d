// SPDX-License-Identifier: Apache-2.0
// Ones on one diagonal of a matrix, zeros elsewhere (ONNX EyeLike). No gradient.
//   y[i, i + k] = 1
#include "d5/operators/exact.hpp"
#include "d5/operators/onnx_type.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[eye_like]";

class EyeLike final : public Exact {
 public:
  explicit EyeLike(const Attributes& a) : type_(type_attribute(a, "dtype", place)), k_(a.integer("k", 0)) {
    check_attributes(a, {"dtype", "k"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place);
    check_rank(in[0], "X", 2, place);
    const DType type = type_.value_or(in[0].dtype);
    if (type == DType::string) throw Error("{} a string cannot be one", place);
    return {{type, in[0].shape}};
  }

  void forward(Context& c) const override {
    const Shape& shape = c.output(0).shape();
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      const auto y = c.output(0).values<T>();
      for (Index i = 0; i < shape.elements(); ++i) y[i] = static_cast<T>(i % shape[1] - i / shape[1] == k_);
    });
  }

  // No element of X is read.
  Cost cost(SpecSpan in, Pass) const override { return {0, infer(in)[0].bytes()}; }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X", "512x512"}, {"k", "which diagonal: above 0 the main one", 0}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .differentiable = false}},
            .attributes = {{"k", v.integer("k", 0)}}};
  }

  static std::vector<Attributes> cases() { return {{{"shape", "4x5"}, {"k", 1}}, {{"shape", "3x2"}, {"k", -1}}}; }

 private:
  std::optional<DType> type_;
  Index k_;
};

}  // namespace
D5_REGISTER(operators, "EyeLike", EyeLike);
}  // namespace d5
