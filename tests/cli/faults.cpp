// SPDX-License-Identifier: Apache-2.0
// Operators, kernels and metrics of a user who made mistakes, one of each.
#include <csignal>
#include <limits>
#include <stdexcept>

#include "d5/backends/kernel.hpp"
#include "d5/measure/metric.hpp"

using namespace d5;

// y = x^2 with its gradient: right. What follows is this with one fault.
class Right : public Operator {
 public:
  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const override { return {{in[0].dtype, in[0].shape}}; }
  void forward(Context& c) const override {
    const auto x = c.input(0).values<double>(), y = c.output(0).values<double>();
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * x[i];
  }
  void backward(Context& c) const override {
    const auto x = c.input(0).values<double>(), dy = c.output_gradient(0).values<double>();
    for (size_t i = 0; i < x.size(); ++i) c.input_gradient(0).values<double>()[i] = 2 * x[i] * dy[i];
  }
};
D5_REGISTER(operators, "Right", Right);

class NoGradient final : public Operator {
 public:
  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const override { return {in[0]}; }
  void forward(Context& c) const override { c.output(0).copy_from(c.input(0)); }
};
D5_REGISTER(operators, "NoGradient", NoGradient);

class Crashes final : public Right {
  void forward(Context&) const override { std::raise(SIGSEGV); }
};
D5_REGISTER(operators, "Crashes", Crashes);

class Hangs final : public Right {
  void forward(Context&) const override {
    for (volatile int i = 0;; i = i + 1) {
    }
  }
};
D5_REGISTER(operators, "Hangs", Hangs);

class Overruns final : public Right {
  void forward(Context& c) const override {
    Right::forward(c);
    c.output(0).values<double>().data()[c.output(0).elements()] = 1;
  }
};
D5_REGISTER(operators, "Overruns", Overruns);

class WrongShape final : public Right {
  void forward(Context& c) const override { c.output(0, DType::f64, {3}).fill_bytes(0); }
};
D5_REGISTER(operators, "WrongShape", WrongShape);

class NotWritten final : public Right {
  void forward(Context& c) const override {
    const double left = c.output(0).values<double>()[5];
    Right::forward(c);
    c.output(0).values<double>()[5] = left;
  }
};
D5_REGISTER(operators, "NotWritten", NotWritten);

class WrongGradient final : public Right {
 public:
  void backward(Context& c) const override {
    Right::backward(c);
    c.input_gradient(0).values<double>()[3] *= 1.001;
  }
};
D5_REGISTER(operators, "WrongGradient", WrongGradient);

class InferCrashes final : public Right {
 public:
  std::vector<TensorSpec> infer(std::span<const TensorSpec>) const override {
    std::raise(SIGSEGV);
    return {};
  }
};
D5_REGISTER(operators, "InferCrashes", InferCrashes);

class InferHangs final : public Right {
 public:
  std::vector<TensorSpec> infer(std::span<const TensorSpec>) const override {
    for (volatile int i = 0;; i = i + 1) {
    }
  }
};
D5_REGISTER(operators, "InferHangs", InferHangs);

class InferThrows final : public Right {
 public:
  std::vector<TensorSpec> infer(std::span<const TensorSpec>) const override { throw std::out_of_range("at(3)"); }
};
D5_REGISTER(operators, "InferThrows", InferThrows);

class CostCrashes final : public Right {
 public:
  Cost cost(std::span<const TensorSpec>, Pass) const override {
    std::raise(SIGFPE);
    return {};
  }
};
D5_REGISTER(operators, "CostCrashes", CostCrashes);

class DescribeCrashes final : public Right {
 public:
  static std::vector<Parameter> parameters() { return one_shape_parameters(); }
  static OperatorCase describe(const Attributes&, DType) {
    std::raise(SIGABRT);
    return {};
  }
};
D5_REGISTER(operators, "DescribeCrashes", DescribeCrashes);

class ConstructorThrows final : public Right {
 public:
  explicit ConstructorThrows(const Attributes&) { throw std::runtime_error("no such attribute"); }
};
D5_REGISTER(operators, "ConstructorThrows", ConstructorThrows);

class CostIsNoNumber final : public Right {
 public:
  Cost cost(std::span<const TensorSpec>, Pass) const override {
    return {.flops = std::numeric_limits<double>::quiet_NaN(), .bytes = 8};
  }
};
D5_REGISTER(operators, "CostIsNoNumber", CostIsNoNumber);

class FarBeyond final : public Right {
  void forward(Context& c) const override {
    Right::forward(c);
    c.output(0).values<double>().data()[c.output(0).elements() + 1000] = 1;
  }
};
D5_REGISTER(operators, "FarBeyond", FarBeyond);

class VeryFarBeyond final : public Right {
  void forward(Context& c) const override {
    Right::forward(c);
    c.output(0).values<double>().data()[c.output(0).elements() + (1 << 27)] = 1;
  }
};
D5_REGISTER(operators, "VeryFarBeyond", VeryFarBeyond);

class VeryFarBefore final : public Right {
  void forward(Context& c) const override {
    Right::forward(c);
    c.input(0).values<double>().data()[-(1 << 27)] = 1;
  }
};
D5_REGISTER(operators, "VeryFarBefore", VeryFarBefore);

class WritesOnAndOn final : public Right {
  void forward(Context& c) const override {
    double* const y = c.output(0).values<double>().data();
    for (Index i = 0; i < (1 << 27); ++i) y[i] = 1;
  }
};
D5_REGISTER(operators, "WritesOnAndOn", WritesOnAndOn);

class BeyondItsInput final : public Right {
  void forward(Context& c) const override {
    Right::forward(c);
    c.input(0).values<double>().data()[-1] = 1;
  }
};
D5_REGISTER(operators, "BeyondItsInput", BeyondItsInput);

class WritesItsInput final : public Right {
  void forward(Context& c) const override {
    Right::forward(c);
    c.input(0).values<double>()[0] = 3;
  }
};
D5_REGISTER(operators, "WritesItsInput", WritesItsInput);

// Integers have no NaN that would tell.
class LeavesAnInteger final : public Right {
 public:
  std::vector<TensorSpec> infer(std::span<const TensorSpec> in) const override { return {{DType::i64, in[0].shape}}; }
  void forward(Context& c) const override {
    const auto y = c.output(0).values<int64_t>();
    for (size_t i = 1; i < y.size(); ++i) y[i] = 5;
  }
};
D5_REGISTER(operators, "LeavesAnInteger", LeavesAnInteger);

class Infinite final : public Right {
  void forward(Context& c) const override {
    Right::forward(c);
    c.output(0).values<double>()[1] = std::numeric_limits<double>::infinity();
  }
};
D5_REGISTER(operators, "Infinite", Infinite);

// y = x^2 by hand in f32.
class ByHand : public Kernel {
 public:
  void prepare(KernelSetup& setup) override { elements_ = setup.inputs[0].elements(); }
  void bind(int, const Buffers& buffers) override {
    x_ = static_cast<float*>(buffers.inputs[0]);
    y_ = static_cast<float*>(buffers.outputs[0]);
  }
  void forward(int) override {
    for (Index i = 0; i < elements_; ++i) y_[i] = x_[i] * x_[i];
  }
  std::string implementation() const override { return "square"; }

 protected:
  Index elements_ = 0;
  float *x_ = nullptr, *y_ = nullptr;
};

// `spoil` is called with the output and its number of elements.
template <class Spoil>
class Square final : public ByHand {
  void forward(int binding) override {
    ByHand::forward(binding);
    Spoil()(y_, elements_);
  }
};
struct Nothing {
  void operator()(float*, Index) const {}
};
struct Beyond {
  void operator()(float* y, Index n) const { y[n] = 1; }
};
struct Far {
  void operator()(float* y, Index n) const { y[n + 2000] = 1; }
};
struct VeryFar {
  void operator()(float* y, Index n) const { y[n + (Index{3} << 30)] = 1; }
};
struct Nan {
  void operator()(float* y, Index) const { y[2] = std::numeric_limits<float>::quiet_NaN(); }
};
D5_REGISTER_KERNEL(reference, "Right", "fast", Square<Nothing>);
D5_REGISTER_KERNEL(reference, "Right", "beyond", Square<Beyond>);
D5_REGISTER_KERNEL(reference, "Right", "nan", Square<Nan>);
D5_REGISTER_KERNEL(reference, "Right", "distant", Square<Far>);
D5_REGISTER_KERNEL(reference, "Right", "remote", Square<VeryFar>);
D5_REGISTER_KERNEL(torch, "Right", "fast", Square<Nothing>);
D5_REGISTER_KERNEL(torch, "Right", "beyond", Square<Beyond>);
D5_REGISTER_KERNEL(torch, "Right", "distant", Square<Far>);
D5_REGISTER_KERNEL(torch, "Right", "remote", Square<VeryFar>);
D5_REGISTER_KERNEL(elsewhere, "Right", "foreign", Square<Nothing>);

// Right as often as it is checked before it is timed.
class Lazy final : public ByHand {
  void forward(int binding) override {
    if (++calls_ <= 3) ByHand::forward(binding);
  }
  int calls_ = 0;
};
D5_REGISTER_KERNEL(reference, "Right", "lazy", Lazy);

class WritesItsInputInF32 final : public ByHand {
  void forward(int binding) override {
    ByHand::forward(binding);
    x_[0] = 0.5f;
  }
};
D5_REGISTER_KERNEL(reference, "Right", "spoils", WritesItsInputInF32);

class Unsteady : public Meter {
 public:
  std::string about() const override { return "nothing"; }
  std::string unit() const override { return "1"; }
  std::optional<Metric> value(const Measured&) const override { throw std::runtime_error("no value today"); }
};
D5_REGISTER(metrics, "value_throws", Unsteady);

class ValueCrashes final : public Unsteady {
  std::optional<Metric> value(const Measured&) const override {
    std::raise(SIGSEGV);
    return {};
  }
};
D5_REGISTER(metrics, "value_crashes", ValueCrashes);

class ValueIsFine final : public Unsteady {
  std::optional<Metric> value(const Measured&) const override { return Metric{.unit = unit(), .median = 42}; }
};
D5_REGISTER(metrics, "value_is_fine", ValueIsFine);

class SeeThrowsANumber final : public Unsteady {
  void see(const CheckedResult&, int) override { throw 5; }
};
D5_REGISTER(metrics, "see_throws_a_number", SeeThrowsANumber);

class CannotBeMade final : public Unsteady {
 public:
  CannotBeMade() { throw std::runtime_error("not today"); }
};
D5_REGISTER(metrics, "cannot_be_made", CannotBeMade);

class ReportsAList final : public Unsteady {
  nlohmann::json report(const std::string&) override { return {1, 2}; }
};
D5_REGISTER(metrics, "reports_a_list", ReportsAList);

class AboutCrashes final : public Unsteady {
 public:
  std::string about() const override {
    std::raise(SIGSEGV);
    return "";
  }
};
D5_REGISTER(metrics, "about_crashes", AboutCrashes);
