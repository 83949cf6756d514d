// SPDX-License-Identifier: Apache-2.0
// Random tensors (ONNX RandomNormal, RandomUniform, ...Like, Bernoulli, Multinomial), from counter-based numbers: the
// same seed gives the same values in the same step, whatever the number of threads. No gradient.
//   RandomNormal[Like]   mean + scale z, z normal        RandomUniform[Like]  low + (high - low) u, u in [0, 1)
//   Bernoulli            1 where u < x, else 0           Multinomial          k with probability softmax(x)_k
#include <algorithm>
#include <bit>
#include <cmath>

#include "d5/core/rng.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/exact.hpp"
#include "d5/operators/onnx_type.hpp"

namespace d5 {
namespace {

constexpr std::initializer_list<DType> floats{DType::f32, DType::f64, DType::f16, DType::bf16};

// One stream for each seed and step. A seed is a float in ONNX: its bits are ours.
Rng numbers(const Attributes& a, const Context& c, std::string_view name) {
  const auto seed = std::bit_cast<uint32_t>(static_cast<float>(a.real("seed", 0)));
  return Rng(Rng(seed, stream_of(name)).bits(c.position.step));
}

class RandomTensor : public Exact {
 public:
  RandomTensor(const Attributes& a, std::string_view place) : place_(place), attributes_(a) {
    type_ = type_attribute(a, "dtype", place);
  }

  Cost cost(SpecSpan in, Pass) const override {
    const TensorSpec y = infer(in)[0];
    return {static_cast<double>(y.elements()), y.bytes()};
  }

 protected:
  TensorSpec shaped(SpecSpan in) const {
    check_inputs(in, 0, 0, place_);
    if (!attributes_.has("shape")) throw Error("{} shape is missing; it has no default", place_);
    return float_spec(output_spec(type_.value_or(DType::f32), attributes_.integers("shape"), place_));
  }
  TensorSpec like(SpecSpan in) const {
    check_inputs(in, 1, 1, place_);
    return float_spec({type_.value_or(in[0].dtype), in[0].shape});
  }

  std::string_view place_;
  Attributes attributes_;
  std::optional<DType> type_;

 private:
  TensorSpec float_spec(TensorSpec spec) const {
    check_type(spec, floats, place_);
    return spec;
  }
};

struct Normal {
  static constexpr const char *first = "mean", *second = "scale";
  static constexpr double first_default = 0, second_default = 1;
  static void fill(const Tensor& y, const Rng& rng, double mean, double scale) { fill_normal(y, rng, mean, scale); }
};
struct Uniform {
  static constexpr const char *first = "low", *second = "high";
  static constexpr double first_default = 0, second_default = 1;
  static void fill(const Tensor& y, const Rng& rng, double low, double high) { fill_uniform(y, rng, low, high); }
};

template <class Distribution, bool has_input>
class Drawn final : public RandomTensor {
 public:
  explicit Drawn(const Attributes& a) : RandomTensor(a, has_input ? "[random_like]" : "[random]") {
    if constexpr (has_input)
      check_attributes(a, {"dtype", "seed", Distribution::first, Distribution::second}, place_);
    else
      check_attributes(a, {"dtype", "seed", "shape", Distribution::first, Distribution::second}, place_);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override { return {has_input ? like(in) : shaped(in)}; }

  void forward(Context& c) const override {
    Distribution::fill(c.output(0), numbers(attributes_, c, Distribution::first),
                       attributes_.real(Distribution::first, Distribution::first_default),
                       attributes_.real(Distribution::second, Distribution::second_default));
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of the result", "64x256x14x14"}, {"stream", "seed of the numbers", 1.0}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    OperatorCase one{.attributes = {{"seed", v.real("stream", 1)}}};
    const Shape shape = parse_shape(v.text("shape", ""));
    if (has_input) {
      one.inputs.push_back({.spec = {type, shape}, .differentiable = false});
    } else {
      one.attributes.set("shape", shape.sizes());
      one.attributes.set("dtype", onnx_number(type));
    }
    return one;
  }

  static std::vector<Attributes> cases() { return {{{"shape", "7"}}, {{"shape", "3x5"}, {"stream", 2.0}}}; }
};

class Bernoulli final : public RandomTensor {
 public:
  explicit Bernoulli(const Attributes& a) : RandomTensor(a, "[bernoulli]") {
    check_attributes(a, {"dtype", "seed"}, place_);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place_);
    check_type(in[0], floats, place_);
    return {{type_.value_or(in[0].dtype), in[0].shape}};
  }

  void forward(Context& c) const override {
    const Rng rng = numbers(attributes_, c, "bernoulli");
    const auto x = c.input(0).values<double>();
    with_compute_type(c.output(0).dtype(), [&]<class T>() {
      const auto y = c.output(0).values<T>();
      for (size_t i = 0; i < x.size(); ++i) y[i] = static_cast<T>(rng.uniform(i) < x[i]);
    });
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of the probabilities", "64x1024"}, {"stream", "seed of the numbers", 1.0}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {
        .inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .low = 0, .high = 1, .differentiable = false}},
        .attributes = {{"seed", v.real("stream", 1)}}};
  }

  static std::vector<Attributes> cases() { return {{{"shape", "10"}}, {{"shape", "3x5"}, {"stream", 2.0}}}; }
};

class Multinomial final : public RandomTensor {
 public:
  explicit Multinomial(const Attributes& a) : RandomTensor(a, "[multinomial]"), samples_(a.integer("sample_size", 1)) {
    check_attributes(a, {"dtype", "sample_size", "seed"}, place_);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 1, 1, place_);
    check_type(in[0], floats, place_);
    check_rank(in[0], "X", 2, place_);
    if (in[0].shape[1] < 1) throw Error("{} X is {}: there is nothing to draw", place_, to_string(in[0].shape));
    const TensorSpec y = output_spec(type_.value_or(DType::i32), {in[0].shape[0], samples_}, place_);
    check_type(y, {DType::i32, DType::i64}, place_);
    return {y};
  }

  void forward(Context& c) const override {
    const Rng rng = numbers(attributes_, c, "multinomial");
    const auto classes = static_cast<size_t>(c.input(0).shape()[1]);
    const auto x = c.input(0).values<double>();
    std::vector<Index> drawn;
    std::vector<double> sums(classes);
    for (size_t row = 0; row * classes < x.size(); ++row) {
      const auto logits = x.subspan(row * classes, classes);
      const double top = *std::ranges::max_element(logits);
      double sum = 0;
      for (size_t k = 0; k < classes; ++k) sums[k] = sum += std::exp(logits[k] - top);
      for (Index s = 0; s < samples_; ++s) {
        const auto at = std::ranges::upper_bound(sums, rng.uniform(drawn.size()) * sum) - sums.begin();
        drawn.push_back(std::min<Index>(at, static_cast<Index>(classes) - 1));
      }
    }
    c.output(0).copy_from(Tensor::from<int64_t>(c.output(0).shape(), drawn).cast(c.output(0).dtype()));
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of the logarithms of the probabilities", "64x1000"},
            {"samples", "how many are drawn of each row", 8},
            {"stream", "seed of the numbers", 1.0}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, parse_shape(v.text("shape", ""))}, .differentiable = false}},
            .attributes = {{"seed", v.real("stream", 1)}, {"sample_size", v.integer("samples", 1)}}};
  }

  static std::vector<Attributes> cases() { return {{{"shape", "3x5"}}, {{"shape", "1x2"}, {"samples", 1}}}; }

 private:
  Index samples_;
};

using RandomNormal = Drawn<Normal, false>;
using RandomNormalLike = Drawn<Normal, true>;
using RandomUniform = Drawn<Uniform, false>;
using RandomUniformLike = Drawn<Uniform, true>;

}  // namespace
D5_REGISTER(operators, "RandomNormal", RandomNormal);
D5_REGISTER(operators, "RandomNormalLike", RandomNormalLike);
D5_REGISTER(operators, "RandomUniform", RandomUniform);
D5_REGISTER(operators, "RandomUniformLike", RandomUniformLike);
D5_REGISTER(operators, "Bernoulli", Bernoulli);
D5_REGISTER(operators, "Multinomial", Multinomial);
}  // namespace d5
