// SPDX-License-Identifier: Apache-2.0
// A check that cannot fail is worth nothing. For every operator a wrong kernel is planted, off by one row, with a wrong
// pad (or another wrong attribute), with too narrow an accumulator, or with a race; each must be caught.
#include <gtest/gtest.h>

#include <cmath>

#include "d5/backends/kernel.hpp"
#include "d5/bench/problem.hpp"
#include "d5/bench/session.hpp"
#include "d5/core/convert.hpp"

namespace d5 {
namespace {

// Right by the operator's own loops, then spoilt by `spoil`.
class PlantedKernel : public Kernel {
 public:
  void prepare(KernelSetup& setup) override {
    node_ = setup.node;
    inputs_ = setup.inputs;
    outputs_ = setup.outputs;
    wants_gradient_ = setup.wants_gradient;
  }
  void bind(int binding, const Buffers& buffers) override {
    if (binding == 0) buffers_ = buffers;  // gradients are never added here
  }
  void forward(int) override {
    Context c = context();
    make_operator(altered(node_))->forward(c);
    spoil_forward(c);
    store(c.outputs, outputs_, buffers_.outputs);
    ++calls_;
  }
  void backward(int) override {
    Context c = context();
    make_operator(node_)->forward(c);
    make_operator(altered(node_))->backward(c);
    spoil_backward(c);
    store(c.input_gradients, inputs_, buffers_.input_gradients);
    ++calls_;
  }
  std::string implementation() const override { return "planted"; }

 protected:
  virtual Node altered(Node node) const { return node; }
  virtual void spoil_forward(Context&) {}
  virtual void spoil_backward(Context&) {}
  int calls_ = 0;
  Node node_;

 private:
  Context context() const {
    Context c;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      c.inputs.push_back(wide(inputs_[i], buffers_.inputs[i]));
      c.input_gradients.push_back(wants_gradient_[i] ? Tensor(DType::f64, inputs_[i].shape) : Tensor());
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      c.outputs.emplace_back(DType::f64, outputs_[i].shape);
      const bool seeded = i < buffers_.output_gradients.size() && buffers_.output_gradients[i];
      c.output_gradients.push_back(seeded ? wide(outputs_[i], buffers_.output_gradients[i]) : Tensor());
    }
    return c;
  }
  static Tensor wide(const TensorSpec& spec, void* data) {
    return data ? Tensor::view(spec.dtype, spec.shape, data).cast(DType::f64) : Tensor();
  }
  static void store(const std::vector<Tensor>& from, const std::vector<TensorSpec>& specs,
                    const std::vector<void*>& to) {
    for (size_t i = 0; i < to.size() && i < from.size(); ++i)
      if (to[i] && from[i].present()) convert(DType::f64, from[i].data(), specs[i].dtype, to[i], from[i].elements());
  }
  std::vector<TensorSpec> inputs_, outputs_;
  std::vector<bool> wants_gradient_;
  Buffers buffers_;
};

// The last row of a result is the one before it: the classic error of a loop bound.
void repeat_row(const Tensor& tensor) {
  const Index row = tensor.shape().rank() ? tensor.shape().back() : 1;
  const auto values = tensor.values<double>();
  if (tensor.elements() < 2 * row || row == 0) {
    values[values.size() - 1] = values[0] + 1;
    return;
  }
  std::copy(values.end() - 2 * row, values.end() - row, values.end() - row);
}

class RepeatedRow final : public PlantedKernel {
  void spoil_forward(Context& c) override { repeat_row(c.outputs[0]); }
  void spoil_backward(Context& c) override { repeat_row(c.input_gradients[0]); }
};

// The same output size from shifted pads, or an attribute that is off.
class WrongAttribute final : public PlantedKernel {
  Node altered(Node node) const override {
    if (node.op == "Conv" || node.op == "MaxPool") node.attributes.set("pads", std::vector<int64_t>{0, 1, 2, 1});
    if (node.op == "Softmax") node.attributes.set("axis", int64_t{0});
    if (node.op == "Gemm") node.attributes.set("beta", 2.0);
    if (node.op == "BatchNormalization") node.attributes.set("epsilon", 1e-2);
    if (node.op == "Gelu") node.attributes.set("approximate", std::string("tanh"));
    return node;
  }
  // Operators without attributes: the sign, or the second operand, is wrong.
  void spoil_forward(Context& c) override {
    const auto y = c.outputs[0].values<double>();
    if (node_.op == "Relu") std::ranges::copy(c.inputs[0].values<double>(), y.begin());
    if (node_.op == "Mul") {  // B is broadcast along the other axis
      const auto a = c.inputs[0].values<double>(), b = c.inputs[1].values<double>();
      for (size_t i = 0; i < y.size(); ++i) y[i] = a[i] * b[i / b.size()];
    }
    if (node_.op == "Add" || node_.op == "MatMul") y[y.size() / 2] = -y[y.size() / 2] + 0.25;
  }
};

// Every value passes through bfloat16 on its way: sums of many terms stop growing.
double narrow(double value) { return static_cast<float>(BFloat16(static_cast<float>(value))); }

class NarrowAccumulator final : public PlantedKernel {
  void spoil_forward(Context& c) override {
    const auto y = c.outputs[0].values<double>();
    const auto x = c.inputs[0].values<double>();
    if (node_.op == "Gemm" || node_.op == "MatMul") {
      const Index m = c.outputs[0].shape()[0], n = c.outputs[0].shape()[1], k = c.inputs[0].shape()[1];
      const auto b = c.inputs[1].values<double>();
      for (Index i = 0; i < m; ++i)
        for (Index j = 0; j < n; ++j) {
          double sum = 0;
          for (Index l = 0; l < k; ++l) sum = narrow(sum + x[i * k + l] * b[l * n + j]);
          y[i * n + j] = sum + (c.input(2).present() ? c.inputs[2].values<double>()[j] : 0);
        }
    } else if (node_.op == "Conv") {  // 1x1 filters: the sum over channels
      const Shape& s = c.inputs[0].shape();
      const Index channels = s[1], pixels = s.elements(2, s.rank()), filters = c.outputs[0].shape()[1];
      const auto w = c.inputs[1].values<double>();
      for (Index n = 0; n < s[0]; ++n)
        for (Index f = 0; f < filters; ++f)
          for (Index p = 0; p < pixels; ++p) {
            double sum = 0;
            for (Index ch = 0; ch < channels; ++ch)
              sum = narrow(sum + x[(n * channels + ch) * pixels + p] * w[f * channels + ch]);
            y[(n * filters + f) * pixels + p] = sum + (c.input(2).present() ? c.inputs[2].values<double>()[f] : 0);
          }
    } else if (node_.op == "Softmax") {
      const Index n = c.outputs[0].shape().back();
      for (size_t line = 0; line < y.size() / static_cast<size_t>(n); ++line) {
        double sum = 0;
        for (Index i = 0; i < n; ++i) sum = narrow(sum + std::exp(x[line * n + i]));
        for (Index i = 0; i < n; ++i) y[line * n + i] = std::exp(x[line * n + i]) / sum;
      }
    } else if (node_.op == "BatchNormalization") {
      const Shape& s = c.inputs[0].shape();
      const Index channels = s[1], pixels = s.elements(2, s.rank());
      for (Index ch = 0; ch < channels; ++ch) {
        double sum = 0, squares = 0, count = static_cast<double>(s[0] * pixels);
        for (Index n = 0; n < s[0]; ++n)
          for (Index p = 0; p < pixels; ++p) {
            const double v = x[(n * channels + ch) * pixels + p];
            sum = narrow(sum + v);
            squares = narrow(squares + v * v);
          }
        const double mean = sum / count, scale = 1 / std::sqrt(squares / count - mean * mean + 1e-5);
        for (Index n = 0; n < s[0]; ++n)
          for (Index p = 0; p < pixels; ++p) {
            const Index at = (n * channels + ch) * pixels + p;
            y[at] = c.inputs[1].values<double>()[ch] * (x[at] - mean) * scale + c.inputs[2].values<double>()[ch];
          }
      }
    } else {
      for (double& v : y) v = narrow(v);  // Add, Relu, ...: nothing is summed; the value itself is too narrow
    }
  }
};

// Now and then a contribution is lost, as when two threads add to one cell: right at first, wrong later.
class Race final : public PlantedKernel {
  void spoil_forward(Context& c) override {
    if (calls_ >= 4) c.outputs[0].values<double>()[0] += 0.5;
  }
};

#define PLANT(op)                                                 \
  D5_REGISTER_KERNEL(reference, op, "row", RepeatedRow);          \
  D5_REGISTER_KERNEL(reference, op, "attribute", WrongAttribute); \
  D5_REGISTER_KERNEL(reference, op, "narrow", NarrowAccumulator); \
  D5_REGISTER_KERNEL(reference, op, "race", Race)
PLANT("Gemm");
PLANT("MatMul");
PLANT("Conv");
PLANT("Relu");
PLANT("Add");
PLANT("Mul");
PLANT("Gelu");
PLANT("MaxPool");
PLANT("Softmax");
PLANT("BatchNormalization");

Json planted_case(const std::string& op, const std::string& kernel) {
  Json fields = {{"kind", "op"}, {"operator", op}, {"backend", "reference"}, {"kernel", kernel}};
  if (op == "Gemm") fields.update({{"m", 24}, {"n", 20}, {"k", 700}});
  if (op == "MatMul") fields.update({{"a", "24x700"}, {"b", "700x20"}});
  if (op == "Conv") fields.update({{"n", 2}, {"c", 300}, {"size", "9x9"}, {"k", 5}, {"filter", "3x3"}, {"pad", "1"}});
  if (op == "MaxPool") fields.update({{"n", 2}, {"c", 3}, {"size", "9x9"}, {"window", "3x3"}, {"pad", "1"}});
  if (op == "Relu") fields.update({{"shape", "40x50"}});
  if (op == "Add") fields.update({{"a", "40x50"}, {"b", "50"}});
  if (op == "Mul") fields.update({{"a", "50x50"}, {"b", "50"}});
  if (op == "Gelu") fields.update({{"shape", "40x50"}});
  if (op == "Softmax") fields.update({{"shape", "40x900"}});
  if (op == "BatchNormalization") fields.update({{"shape", "8x5x12x12"}, {"training", true}});
  if (kernel == "narrow" && op == "Conv") fields.update({{"filter", "1x1"}, {"pad", "0"}});
  // The hard form: the result is bfloat16 anyway, only the accumulator is too narrow. Where nothing is summed, f32.
  const bool sums = op != "Relu" && op != "Add" && op != "Mul" && op != "Gelu" && op != "MaxPool";
  if (kernel == "narrow" && sums) fields["dtype"] = "bf16";
  return bench_of(fields).complete(fields);
}

class Planted : public testing::TestWithParam<std::string> {};

TEST_P(Planted, TheRightKernelPasses) {
  for (const char* dtype : {"f32", "bf16"})
    for (const char* pass : {"forward", "backward"}) {
      Json fields = planted_case(GetParam(), "builtin");
      fields["dtype"] = dtype;
      fields["pass"] = pass;
      auto session = bench_of(fields).open(fields);
      const Outcome outcome = session->prepare(Depth::check);
      EXPECT_EQ(outcome.status, "passed") << dtype << " " << pass << ": " << outcome.reason;
    }
}

TEST_P(Planted, WrongRowWrongAttributeAndNarrowAccumulatorAreCaught) {
  for (const char* kernel : {"row", "attribute", "narrow"}) {
    const Json fields = planted_case(GetParam(), kernel);
    const Outcome outcome = bench_of(fields).open(fields)->prepare(Depth::check);
    EXPECT_EQ(outcome.status, "failed") << kernel;
    EXPECT_NE(outcome.reason.find("expected"), std::string::npos) << outcome.reason;
  }
}

TEST_P(Planted, WrongGradientIsCaught) {
  Json fields = planted_case(GetParam(), "row");
  fields["pass"] = "backward";
  const Outcome outcome = bench_of(fields).open(fields)->prepare(Depth::check);
  EXPECT_EQ(outcome.status, "failed");
  EXPECT_NE(outcome.reason.find("gradient of x0"), std::string::npos) << outcome.reason;
}

TEST_P(Planted, ARaceIsCaughtAfterTheMeasurement) {
  const Json fields = planted_case(GetParam(), "race");
  auto session = bench_of(fields).open(fields);
  const Outcome before = session->prepare(Depth::measure);
  ASSERT_EQ(before.status, "passed") << before.reason;
  session->run({.samples = 8});
  const Outcome after = session->finish();
  EXPECT_EQ(after.status, "failed");
  EXPECT_TRUE(after.reason.starts_with("after the measurement: ")) << after.reason;
}

INSTANTIATE_TEST_SUITE_P(Operators, Planted,
                         testing::Values("Gemm", "MatMul", "Conv", "Relu", "Add", "Mul", "Gelu", "MaxPool", "Softmax",
                                         "BatchNormalization"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace d5
