// SPDX-License-Identifier: Apache-2.0
// A gated activation (Shazeer, 2020; ONNX SwiGLU): Swish of the gate A times B, of the same shape.
//   s = sigmoid(alpha a)      y = a s b
//   da = dy b s (1 + alpha a (1 - s))      db = dy a s
#include <concepts>

#include "d5/operators/elementwise.hpp"

namespace d5 {
namespace {

struct SwiGlu : BinaryFunction {
  static constexpr std::string_view place = "[swiglu]";
  static constexpr auto types = float_types;
  static constexpr bool broadcasts = false;
  static constexpr double a_low = -4.1, a_high = 4, flops[2] = {5, 8};
  explicit SwiGlu(const Attributes& a) : alpha(a.real("alpha", 1)) {}
  static std::vector<Parameter> parameters() { return {{"alpha", "factor of the gate inside the sigmoid", 1.0}}; }
  static std::vector<Attributes> attribute_cases() { return {{{"alpha", 1.7}}}; }
  static void check(SpecSpan in, std::string_view place) {
    check_same_type(in, place);
    if (in[0].shape != in[1].shape)
      throw Error("{} A is {} and B is {}; one shape is wanted", place, to_string(in[0].shape), to_string(in[1].shape));
  }
  template <std::floating_point T>
  T operator()(T a, T b) const {
    return static_cast<T>(a * gate(a) * b);
  }
  double slope(size_t input, double a, double b) const {
    return input == 1 ? a * gate(a) : b * gate(a) * (1 + alpha * a * (1 - gate(a)));
  }
  // The sigmoid errs by 1 + |alpha a| of its share, and is stored on the way; so is Swish.
  double error(double a, double b) const { return std::abs(a * b) * gate(a) * (3 + std::abs(alpha * a)); }
  double slope_error(size_t input, double a, double b) const {
    const double z = std::abs(alpha * a), s = gate(a);
    return input == 1 ? std::abs(a) * s * (3 + z) : std::abs(b) * s * (1 + z) * (4 + z);
  }
  double gate(double a) const { return 1 / (1 + std::exp(-alpha * a)); }
  double alpha;
};

}  // namespace
D5_REGISTER(operators, "SwiGLU", Binary<SwiGlu>);
}  // namespace d5
