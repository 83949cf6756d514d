// SPDX-License-Identifier: Apache-2.0
// A second implementation of SquaredRelu (examples/operator): what its forward can be checked against.
// Try it:   d5 op SquaredRelu --source examples/operator/squared_relu.cpp --source
// examples/kernel/squared_relu_kernel.cpp
//           --backend reference --kernel builtin,mine
#include "d5/backends/kernel.hpp"
#include "d5/core/parallel.hpp"

using namespace d5;

class MySquaredRelu final : public Kernel {
 public:
  // A reason, or nothing where it can. Buffers are row-major unless prepare() asks for another layout.
  std::optional<std::string> why_not(const KernelSetup& setup) const override {
    if (setup.inputs[0].dtype != DType::f32) return "mine computes in f32";
    if (setup.training()) return "mine has no backward";
    return {};
  }
  void prepare(KernelSetup& setup) override { elements_ = setup.inputs[0].elements(); }

  // Pointers are fixed once; after that a step neither allocates nor copies.
  void bind(int binding, const Buffers& buffers) override {
    if (bound_.size() <= static_cast<size_t>(binding)) bound_.resize(binding + 1);
    bound_[binding] = {static_cast<const float*>(buffers.inputs[0]), static_cast<float*>(buffers.outputs[0])};
  }
  void forward(int binding) override {
    const auto [x, y] = bound_[binding];
    parallel_for(elements_, 1 << 15, [x = x, y = y](Index first, Index last) {
      for (Index i = first; i < last; ++i) y[i] = x[i] > 0 ? x[i] * x[i] : 0;
    });
  }
  std::string implementation() const override { return "mine"; }

 private:
  struct Bound {
    const float* x;
    float* y;
  };
  Index elements_ = 0;
  std::vector<Bound> bound_;
};

D5_REGISTER_KERNEL(reference, "SquaredRelu", "mine", MySquaredRelu);
