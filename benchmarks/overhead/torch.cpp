// SPDX-License-Identifier: Apache-2.0
// bin/d5-overhead-torch: d5 against at:: calls and the autograd engine, as a C++ program of LibTorch's users has them.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "overhead.hpp"

namespace d5 {
namespace {

class DirectTorch final : public Direct {
 public:
  DirectTorch(const OverheadCase& c, const OperatorCase& one) : pass_(c.pass) {
    const bool training = pass_ == Pass::backward;
    const bool bias = one.inputs.size() > 2 && one.inputs[2].spec.present;
    for (const OperatorInput& input : one.inputs)
      if (input.spec.present) inputs_.push_back(tensor(input.spec.shape.sizes()).set_requires_grad(training));
    if (c.op == "Gemm") {
      const bool trans_a = one.attributes.flag("transA", false), trans_b = one.attributes.flag("transB", false);
      implementation_ = bias ? "aten::addmm" : "aten::mm";
      call_ = [this, trans_a, trans_b, bias] {
        const at::Tensor a = trans_a ? inputs_[0].t() : inputs_[0], b = trans_b ? inputs_[1].t() : inputs_[1];
        return bias ? at::addmm(inputs_[2], a, b) : at::mm(a, b);
      };
    } else {
      const auto strides = one.attributes.integers("strides"), pads = one.attributes.integers("pads");
      implementation_ = "aten::convolution";
      call_ = [this, bias, strides, pads = std::vector<int64_t>{pads[0], pads[1]}] {
        static const std::vector<int64_t> ones{1, 1}, zeros{0, 0};
        return at::convolution(inputs_[0], inputs_[1], bias ? std::optional(inputs_[2]) : std::nullopt, strides, pads,
                               ones, false, zeros, 1);
      };
    }
    if (!training) return;
    result_ = call_();
    seed_ = at::empty_like(result_).uniform_(-1, 1);
  }

  void run() override {
    if (pass_ == Pass::forward) {
      const c10::InferenceMode inference;
      result_ = call_();
    } else {
      gradients_ = torch::autograd::grad({result_}, inputs_, {seed_}, /*retain_graph=*/true);
    }
  }
  std::string implementation() const override { return implementation_; }
  bool is(const std::string& other) const override { return other.starts_with(implementation_); }

 private:
  static at::Tensor tensor(const std::vector<int64_t>& sizes) {
    const auto format = sizes.size() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    return at::empty(sizes, at::dtype(at::kFloat), format).uniform_(-1, 1);
  }
  Pass pass_;
  std::vector<at::Tensor> inputs_, gradients_;
  at::Tensor result_, seed_;
  std::function<at::Tensor()> call_;
  std::string implementation_;
};

}  // namespace
}  // namespace d5

int main(int argc, char** argv) {
  return d5::overhead_main(argc, argv,
                           {"torch", "d5 against the same at:: calls and autograd",
                            [](const d5::OverheadCase& c, const d5::OperatorCase& one) -> std::unique_ptr<d5::Direct> {
                              return std::make_unique<d5::DirectTorch>(c, one);
                            }});
}
