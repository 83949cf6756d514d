// SPDX-License-Identifier: Apache-2.0
// Operators and kernels of a user who made mistakes, one of each.
#include <csignal>
#include <limits>

#include "d5/backends/kernel.hpp"

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

// y = x^2 by hand in f32; `spoil` is called with the output and its number of elements.
template <class Spoil>
class Square final : public Kernel {
 public:
  void prepare(KernelSetup& setup) override { elements_ = setup.inputs[0].elements(); }
  void bind(int, const Buffers& buffers) override {
    x_ = static_cast<float*>(buffers.inputs[0]);
    y_ = static_cast<float*>(buffers.outputs[0]);
  }
  void forward(int) override {
    for (Index i = 0; i < elements_; ++i) y_[i] = x_[i] * x_[i];
    Spoil{}(y_, elements_);
  }
  std::string implementation() const override { return "square"; }

 private:
  Index elements_ = 0;
  float *x_ = nullptr, *y_ = nullptr;
};
struct Nothing {
  void operator()(float*, Index) const {}
};
struct Beyond {
  void operator()(float* y, Index n) const { y[n] = 1; }
};
struct Nan {
  void operator()(float* y, Index) const { y[2] = std::numeric_limits<float>::quiet_NaN(); }
};
D5_REGISTER_KERNEL(reference, "Right", "fast", Square<Nothing>);
D5_REGISTER_KERNEL(reference, "Right", "beyond", Square<Beyond>);
D5_REGISTER_KERNEL(reference, "Right", "nan", Square<Nan>);
D5_REGISTER_KERNEL(elsewhere, "Right", "foreign", Square<Nothing>);
