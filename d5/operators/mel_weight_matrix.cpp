// SPDX-License-Identifier: Apache-2.0
// Weights that sum the bins of a spectrum into bands of the mel scale (ONNX MelWeightMatrix): triangles with a peak of
// 1 between neighbouring points, which lie at equal distances in mel(f) = 2595 log10(1 + f / 700). No gradient.
//   point_i = floor((dft_length + 1) f(lower + i (upper - lower) / (bands + 2)) / sample_rate)
#include <cmath>

#include "d5/operators/exact.hpp"
#include "d5/operators/known.hpp"
#include "d5/operators/onnx_type.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[mel_weight_matrix]";

class MelWeightMatrix final : public Exact {
 public:
  explicit MelWeightMatrix(const Attributes& a)
      : type_(type_attribute(a, "output_datatype", place).value_or(DType::f32)) {
    check_attributes(a, {"output_datatype"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 5, 5, place);
    for (const TensorSpec& spec : in)
      if (spec.elements() != 1) throw Error("{} an input is {}; single numbers are wanted", place, to_string(spec));
    const Index bands = known_integer(in[0], "num_mel_bins", place);
    const Index length = known_integer(in[1], "dft_length", place);
    if (bands < 1 || length < 1)
      throw Error("{} num_mel_bins is {} and dft_length {}; at least 1 is wanted", place, bands, length);
    return {output_spec(type_, {length / 2 + 1, bands}, place)};
  }

  void forward(Context& c) const override {
    const Index bins = c.output(0).shape()[0], bands = c.output(0).shape()[1];
    const double length = number(c.input(1)), rate = number(c.input(2));
    const double low = mel(number(c.input(3))), high = mel(number(c.input(4)));
    std::vector<Index> point;
    for (Index i = 0; i < bands + 2; ++i) {
      const double at = low + static_cast<double>(i) * (high - low) / static_cast<double>(bands + 2);
      const double bin = std::floor((length + 1) * hertz(at) / rate);
      if (!(bin >= 0 && bin < static_cast<double>(bins)))
        throw Error("{} the band of {} Hz needs bin {}; there are {}", place, hertz(at), bin, bins);
      point.push_back(static_cast<Index>(bin));
    }
    Tensor weights(DType::f64, c.output(0).shape());
    weights.fill_bytes(0);
    const auto y = weights.values<double>();
    const auto share = [](Index part, Index whole) { return static_cast<double>(part) / static_cast<double>(whole); };
    for (Index i = 0; i < bands; ++i) {
      const Index left = point[i], centre = point[i + 1], right = point[i + 2];
      for (Index j = left; j < centre; ++j) y[j * bands + i] = share(j - left, centre - left);
      y[centre * bands + i] = 1;
      for (Index j = centre; j < right; ++j) y[j * bands + i] = share(right - j, right - centre);
    }
    c.output(0).copy_from(weights.cast(c.output(0).dtype()));
  }

  static std::vector<Parameter> parameters() {
    return {{"bands", "number of bands", 80},
            {"length", "length of the transform", 400},
            {"rate", "samples per second", 16000},
            {"low", "lowest frequency in Hz", 0.0},
            {"high", "highest frequency in Hz", 8000.0}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const auto hertz = [&](const char* name) {
      return OperatorInput{.spec = known_spec(Tensor::scalar(v.real(name, 0), DType::f32)), .differentiable = false};
    };
    return {.inputs = {known_scalar(v.integer("bands", 0)), known_scalar(v.integer("length", 0)),
                       known_scalar(v.integer("rate", 0)), hertz("low"), hertz("high")},
            .attributes = {{"output_datatype", onnx_number(type)}}};
  }

  static std::vector<Attributes> cases() {
    return {{{"bands", 8}, {"length", 16}, {"rate", 8192}, {"high", 4096.0}}, {}};
  }

 private:
  static double number(const Tensor& t) { return t.cast(DType::f64).values<double>()[0]; }
  static double mel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
  static double hertz(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

  DType type_;
};

}  // namespace
D5_REGISTER(operators, "MelWeightMatrix", MelWeightMatrix);
}  // namespace d5
