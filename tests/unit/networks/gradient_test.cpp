// SPDX-License-Identifier: Apache-2.0
// The gradient of every network's loss, by the reference's loops in double, against central differences along a random
// direction in the space of all parameters.
//   D(h) = (L(p + h d) - L(p - h d)) / 2h
// is off by h^2/6 L''', by about h for kinks that the step crosses, and by rounding / h. The first two are seen in how
// far D(2h) and D(4h) are from D(h): three times their size and more.
#include <gtest/gtest.h>

#include <cmath>

#include "d5/core/rng.hpp"
#include "d5/networks/initialise.hpp"
#include "d5/networks/loss.hpp"
#include "d5/networks/samples.hpp"
#include "tiny.hpp"

namespace d5 {
namespace {

using Role = Executable::Role;

class Training {
 public:
  Training(Graph graph, uint64_t seed) : graph_(std::move(graph)), values_(initial_values(graph_, seed)) {
    // Zero biases would put every rectified unit without inputs onto its kink.
    for (auto& [name, value] : values_)
      if (name.ends_with("bias") || name == "class_token") fill_uniform(value, Rng(seed, stream_of(name)), -0.1, 0.1);
    // Three samples of a single pixel have hardly a variance, and its root in a denominator makes the loss all curves.
    for (Node& node : graph_.nodes)
      if (node.op == "BatchNormalization") node.attributes.set("epsilon", 0.1);
    executable_ = open_backend("reference")->compile(graph_, set_, {.mode = Mode::training});
    for (const auto& [name, value] : sample_inputs(graph_, seed)) executable_->write(Role::value, name, value);
    for (const GraphInput& input : graph_.inputs)
      if (input.parameter && input.differentiable) {
        directions_[input.name] = Tensor(DType::f64, input.spec.shape);
        fill_normal(directions_[input.name], Rng(seed, stream_of("direction of " + input.name)), 0, 1);
        for (const double d : directions_[input.name].values<double>()) length_ += d * d;
      }
    length_ = std::sqrt(length_);
  }

  double loss(double step) {
    for (const auto& [name, value] : values_) {
      const Tensor moved = value.clone();
      if (const auto direction = directions_.find(name); direction != directions_.end())
        for (Index i = 0; i < moved.elements(); ++i)
          moved.values<double>()[i] += step / length_ * direction->second.values<double>()[i];
      executable_->write(Role::value, name, moved);
    }
    executable_->forward({});
    return executable_->read(Role::value, loss_name).values<double>()[0];
  }

  double analytic() {
    loss(0);
    executable_->write(Role::gradient, loss_name, Tensor::scalar(1));
    executable_->backward({});
    double sum = 0;
    for (const auto& [name, direction] : directions_) {
      const Tensor gradient = executable_->read(Role::gradient, name);
      double part = 0;
      for (Index i = 0; i < gradient.elements(); ++i)
        part += gradient.values<double>()[i] * direction.values<double>()[i];
      EXPECT_TRUE(std::isfinite(part)) << name;
      sum += part;
    }
    return sum / length_;
  }

 private:
  Graph graph_;
  ParameterSet set_;
  std::map<std::string, Tensor> values_, directions_;
  double length_ = 0;  // of the direction
  std::unique_ptr<Executable> executable_;
};

class Gradient : public testing::TestWithParam<std::string> {};

TEST_P(Gradient, AgreesWithCentralDifferences) {
  const std::string& name = GetParam();
  const std::string loss = registered<networks>(name).loss;
  const Index batch = name == "cosmoflow" ? 1 : 3;  // its smallest cube is large
  Training training(with_loss(build_network(name, tiny_networks().at(name), batch, DType::f64, Mode::training),
                              loss.empty() ? "mean-squared-error" : loss),
                    1);
  constexpr double h = 1e-6;
  const double at = training.loss(0), analytic = training.analytic();
  const auto difference = [&](double step) { return (training.loss(step) - training.loss(-step)) / (2 * step); };
  const double near = difference(h);
  const double spread = std::max(std::abs(difference(2 * h) - near), std::abs(difference(4 * h) - near));
  const double tolerance = spread + 1e3 * 0x1p-53 * std::abs(at) / h;
  EXPECT_GT(at, 0);
  EXPECT_GT(std::abs(analytic), 10 * tolerance) << "the check has no power";
  EXPECT_NEAR(near, analytic, tolerance) << "loss " << at;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, values] : tiny_networks()) all.push_back(name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Networks, Gradient, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace d5
