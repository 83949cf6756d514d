// SPDX-License-Identifier: Apache-2.0
// Batch normalisation (Ioffe and Szegedy, 2015; ONNX BatchNormalization, opset 15). All per channel, over its N
// elements:
//   y = scale (x - mean) / s + B      s = sqrt(var + epsilon)
// Inference: mean and var are inputs 3 and 4, constants for the gradient.
//   dx = dy scale / s      dscale = sum dy (x - mean) / s      dB = sum dy
// Training: mean and var are those of the batch (var divides by N), and two more outputs follow the running ones.
//   running = momentum running + (1 - momentum) batch
//   dx = scale / s (dy - mean(dy) - z mean(dy z))      dscale = sum dy z      dB = sum dy      with z = (x - mean) / s
#include <cmath>

#include "d5/core/parallel.hpp"
#include "d5/operators/checks.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

constexpr std::string_view place = "[batch_normalization]";

class BatchNormalization final : public Operator {
 public:
  explicit BatchNormalization(const Attributes& a)
      : epsilon_(a.real("epsilon", 1e-5)),
        momentum_(a.real("momentum", 0.9)),
        training_(a.flag("training_mode", false)) {
    check_attributes(a, {"epsilon", "momentum", "training_mode"}, place);
  }

  std::vector<TensorSpec> infer(SpecSpan in) const override {
    check_inputs(in, 5, 5, place);
    for (const TensorSpec& spec : in) check_type(spec, {DType::f32, DType::f64, DType::f16, DType::bf16}, place);
    check_same_type(in.subspan(1, 2), place);
    check_same_type(in.last(2), place);
    if (in[0].shape.rank() == 0) throw Error("{} X is a scalar; at least one axis is wanted", place);
    const Index channels = Planes(in[0].shape).channels;
    for (size_t i = 1; i < 5; ++i)
      if (in[i].shape != Shape{channels})
        throw Error("{} {} is {}; {} values are wanted, one for each channel of X ({})", place, names[i],
                    to_string(in[i].shape), channels, to_string(in[0].shape));
    std::vector<TensorSpec> out{{in[0].dtype, in[0].shape}};
    if (training_) out.insert(out.end(), 2, TensorSpec{in[3].dtype, in[3].shape});
    return out;
  }

  void forward(Context& c) const override {
    for_each_channel(c, [&](const Planes& planes, Index channel) {
      const Statistics s = statistics(c, planes, channel);
      const double scale = value(c, 1, channel), bias = value(c, 2, channel);
      const auto x = c.input(0).values<double>(), y = c.output(0).values<double>();
      planes.for_each(channel, [&](Index i) { y[i] = scale * (x[i] - s.mean) / s.deviation + bias; });
      const auto follow = [&](size_t output, double running, double batch) {
        if (c.output(output).present())
          c.output(output).values<double>()[channel] = momentum_ * running + (1 - momentum_) * batch;
      };
      follow(1, value(c, 3, channel), s.mean);
      follow(2, value(c, 4, channel), s.variance);
    });
  }

  void backward(Context& c) const override {
    for_each_channel(c, [&](const Planes& planes, Index channel) {
      const Statistics s = statistics(c, planes, channel);
      const auto x = c.input(0).values<double>(), dy = c.output_gradient(0).values<double>();
      double sum = 0, dot = 0;
      planes.for_each(channel, [&](Index i) {
        sum += dy[i];
        dot += dy[i] * (x[i] - s.mean) / s.deviation;
      });
      if (c.input_gradient(1).present()) c.input_gradient(1).values<double>()[channel] = dot;
      if (c.input_gradient(2).present()) c.input_gradient(2).values<double>()[channel] = sum;
      if (!c.input_gradient(0).present()) return;
      const auto dx = c.input_gradient(0).values<double>();
      const double scale = value(c, 1, channel) / s.deviation;
      planes.for_each(channel, [&](Index i) {
        const double z = (x[i] - s.mean) / s.deviation;
        dx[i] = scale * (training_ ? dy[i] - sum / planes.count - z * dot / planes.count : dy[i]);
      });
    });
  }

  // Forward: subtract, multiply, add; with statistics a sum and a sum of squares of differences. Backward: two sums,
  // then dx.
  Cost cost(SpecSpan in, Pass pass) const override {
    const double elements = static_cast<double>(in[0].elements()), bytes = in[0].bytes();
    const double channels = input_bytes(in.subspan(1));
    if (pass == Pass::forward)
      return {(training_ ? 7 : 3) * elements, 2 * bytes + channels + (training_ ? input_bytes(in.last(2)) : 0)};
    return {(training_ ? 10 : 5) * elements, 3 * bytes + channels + in[1].bytes()};
  }

  // Units: the square root, the division, epsilon, the subtraction, two products, a sum.
  Rounding rounding(SpecSpan in, Pass pass, size_t index) const override {
    const bool sums = pass == Pass::forward ? training_ : training_ || index != 0;
    return {.terms = sums ? Planes(in[0].shape).count : 1, .units = 7};
  }

  // First-order errors in units of u. With a the mean of |x| (inference: |mean|), the mean errs by a. The variance errs
  // by E[x^2] where it is taken as E[x^2] - mean^2, as many do in one pass, so s has a relative error of about k = 1 +
  // E[x^2] / s^2.
  //   z = (x - mean) / s errs by k w with w = (|x| + a) / s, and |z| <= w
  //   y:       |scale| k w + |B|
  //   dscale:  sum |dy| k w                   dB: sum |dy|
  //   dx:      |scale| / s k (|dy| + mean|dy| + 3 w mean(|dy| w)): the factor in front errs, z errs, and mean(dy z)
  //   errs
  // Inference has k = 1 and only |scale| / s |dy| in dx. Running statistics: the sums they come from.
  Tensor magnitude(const Context& c, Pass pass, size_t index) const override {
    const bool per_element = index == 0;
    Tensor result(DType::f64, per_element ? c.input(0).shape() : c.input(1).shape());
    const auto out = result.values<double>();
    for_each_channel(c, [&](const Planes& planes, Index channel) {
      const Statistics s = statistics(c, planes, channel);
      const auto x = c.input(0).values<double>();
      double absolute = std::abs(s.mean), square = 0, k = 1;
      if (training_) {
        absolute = 0;
        planes.for_each(channel, [&](Index i) {
          absolute += std::abs(x[i]) / planes.count;
          square += x[i] * x[i] / planes.count;
        });
        k += square / (s.deviation * s.deviation);
      }
      const auto w = [&](Index i) { return (std::abs(x[i]) + absolute) / s.deviation; };
      const double scale = std::abs(value(c, 1, channel)), bias = std::abs(value(c, 2, channel));
      if (pass == Pass::forward && index == 0)
        return planes.for_each(channel, [&](Index i) { out[i] = scale * k * w(i) + bias; });
      if (pass == Pass::forward) {
        const double batch = index == 1 ? absolute : 2 * square;
        out[channel] = momentum_ * std::abs(value(c, index + 2, channel)) + (1 - momentum_) * batch;
        return;
      }
      const auto dy = c.output_gradient(0).values<double>();
      double sum = 0, dot = 0;
      planes.for_each(channel, [&](Index i) {
        sum += std::abs(dy[i]);
        dot += std::abs(dy[i]) * w(i);
      });
      if (index == 1) out[channel] = k * dot;
      if (index == 2) out[channel] = sum;
      if (index == 0)
        planes.for_each(channel, [&](Index i) {
          const double statistics_error = training_ ? sum / planes.count + 3 * w(i) * dot / planes.count : 0;
          out[i] = scale / s.deviation * k * (std::abs(dy[i]) + statistics_error);
        });
    });
    return result;
  }

  static std::vector<Parameter> parameters() {
    return {{"shape", "shape of X: N x C x ...", "16x64x56x56"},
            {"training", "normalise with the statistics of the batch", true},
            {"epsilon", "added to the variance", 1e-5},
            {"momentum", "share of the old running statistics", 0.9}};
  }

  static OperatorCase describe(const Attributes& v, DType type) {
    const Shape shape = parse_shape(v.text("shape", ""));
    // Narrow floats are for activations; what belongs to a channel stays in f32, as frameworks keep it.
    const TensorSpec channels{bits(type) < 32 ? DType::f32 : type,
                              Shape{shape.rank() == 0 ? 1 : Planes(shape).channels}};
    OperatorCase one;
    one.inputs = {{.spec = {type, shape}},
                  {.spec = channels, .parameter = true},
                  {.spec = channels, .parameter = true},
                  {.spec = channels, .differentiable = false},
                  {.spec = channels, .low = 0.5, .high = 1.5, .differentiable = false}};
    const bool training = v.flag("training", true);
    one.attributes = {{"epsilon", v.real("epsilon", 1e-5)},
                      {"momentum", v.real("momentum", 0.9)},
                      {"training_mode", int64_t{training}}};
    one.outputs = training ? 3 : 1;
    return one;
  }

  static std::vector<Attributes> cases() {
    return {{{"shape", "2x3"}, {"training", false}},
            {{"shape", "7"}},
            {{"shape", "5x4"}},
            {{"shape", "2x3x4x5"}, {"training", false}, {"epsilon", 1e-2}},
            {{"shape", "2x3x4x5"}, {"epsilon", 1e-2}, {"momentum", 0.5}},
            {{"shape", "3x1x7"}},
            {{"shape", "2x5x3x2x3"}},
            {{"shape", "1x17x5x3"}, {"momentum", 0.0}},
            {{"shape", "4x64x14x14"}},
            {{"shape", "4x64x14x14"}, {"training", false}}};
  }

 private:
  static constexpr const char* names[] = {"X", "scale", "B", "mean", "var"};

  // Where the elements of a channel lie in N x C x ...; a single axis is N values of one channel.
  struct Planes {
    explicit Planes(const Shape& x)
        : images(x[0]),
          channels(x.rank() == 1 ? 1 : x[1]),
          inner(x.rank() <= 2 ? 1 : x.elements(2, x.rank())),
          count(static_cast<double>(images * inner)) {}
    template <class F>
    void for_each(Index channel, F&& f) const {
      for (Index n = 0; n < images; ++n)
        for (Index i = 0; i < inner; ++i) f((n * channels + channel) * inner + i);
    }
    Index images, channels, inner;
    double count;
  };

  struct Statistics {
    double mean, variance, deviation;
  };

  Statistics statistics(const Context& c, const Planes& planes, Index channel) const {
    double mean = value(c, 3, channel), variance = value(c, 4, channel);
    if (training_) {
      const auto x = c.input(0).values<double>();
      mean = variance = 0;
      planes.for_each(channel, [&](Index i) { mean += x[i]; });
      mean /= planes.count;
      planes.for_each(channel, [&](Index i) { variance += (x[i] - mean) * (x[i] - mean); });
      variance /= planes.count;
    }
    return {mean, variance, std::sqrt(variance + epsilon_)};
  }

  static double value(const Context& c, size_t input, Index channel) {
    return c.input(input).values<double>()[channel];
  }

  template <class F>
  static void for_each_channel(const Context& c, F&& f) {
    const Planes planes(c.input(0).shape());
    const Index grain = std::max<Index>(1, (1 << 18) / std::max<Index>(1, planes.images * planes.inner));
    parallel_for(planes.channels, grain, [&](Index first, Index last) {
      for (Index channel = first; channel < last; ++channel) f(planes, channel);
    });
  }

  double epsilon_, momentum_;
  bool training_;
};

}  // namespace
D5_REGISTER(operators, "BatchNormalization", BatchNormalization);
}  // namespace d5
