// SPDX-License-Identifier: Apache-2.0
// SquaredRelu (examples/operator) as the backend torch runs it: forward and backward become one function of torch's
// autograd, so it may stand anywhere in a network that torch trains. Buffers are row-major, on the host. Try it:   d5
// op SquaredRelu --source examples/operator/squared_relu.cpp --source examples/kernel/torch_squared_relu.cpp
//           --backend torch --kernel builtin,mine --pass forward,backward
#include "d5/backends/kernel.hpp"

using namespace d5;

class TorchSquaredRelu final : public Kernel {
 public:
  std::optional<std::string> why_not(const KernelSetup& setup) const override {
    if (setup.inputs[0].dtype != DType::f32) return "mine computes in f32";
    return {};
  }
  void prepare(KernelSetup& setup) override { elements_ = setup.inputs[0].elements(); }
  void bind(int, const Buffers& buffers) override { buffers_ = buffers; }

  void forward(int) override {
    const auto* x = static_cast<const float*>(buffers_.inputs[0]);
    auto* y = static_cast<float*>(buffers_.outputs[0]);
    for (Index i = 0; i < elements_; ++i) y[i] = x[i] > 0 ? x[i] * x[i] : 0;
  }
  void backward(int) override {
    const auto* x = static_cast<const float*>(buffers_.inputs[0]);
    const auto* dy = static_cast<const float*>(buffers_.output_gradients[0]);
    auto* dx = static_cast<float*>(buffers_.input_gradients[0]);
    for (Index i = 0; i < elements_; ++i) dx[i] = x[i] > 0 ? 2 * x[i] * dy[i] : 0;
  }
  std::string implementation() const override { return "mine"; }

 private:
  Index elements_ = 0;
  Buffers buffers_;
};

D5_REGISTER_KERNEL(torch, "SquaredRelu", "mine", TorchSquaredRelu);
