// SPDX-License-Identifier: Apache-2.0
// Softmax by oneDNN, for comparison: the built-in one is our own (own/softmax.cpp). The tensor is seen as outer x axis
// x inner; where the layout is free the axis lies innermost. Backward needs the forward result, which the plan keeps.
#include "d5/backends/onednn/kernel.hpp"

namespace d5::onednn {
namespace {

class OnednnSoftmax final : public OnednnKernel {
 protected:
  void build(Program& p, const KernelSetup& setup) const override {
    const Shape& shape = setup.inputs[0].shape;
    const DType type = setup.inputs[0].dtype;
    const size_t axis = valid_axis(setup.node.attributes.integer("axis", -1), shape.rank(), "[softmax]");
    const Index outer = shape.elements(0, axis), size = shape[axis], inner = shape.elements(axis + 1, shape.rank());
    const Desc plain = row_major(type, {outer, size, inner});
    const bool free = type == DType::f32 && p.chooses_input(0) && p.chooses_output(0);
    const Desc fast = free ? strided(type, {outer, size, inner}, {size * inner, 1, size}) : plain;
    // With a bf16 result oneDNN rounds the exponentials before it divides: two roundings. So the result is f32 first.
    const bool narrow = type != DType::f32;
    const Desc result = narrow ? row_major(DType::f32, {outer, size, inner}) : fast;
    const auto kind = setup.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const auto accurate = dnnl::algorithm::softmax_accurate;
    const dnnl::softmax_forward::primitive_desc forward(engine(), kind, accurate, fast, result, 1, p.attributes());
    p.add(Pass::forward, forward,
          {reads(DNNL_ARG_SRC, input(0, plain, fast)), writes(DNNL_ARG_DST, output(0, plain, result))});
    if (!setup.wants_gradient[0]) return;
    const dnnl::softmax_forward::primitive_desc hint(engine(), kind, accurate, fast, fast, 1, p.attributes());
    const dnnl::softmax_backward::primitive_desc backward(engine(), accurate, fast, fast, fast, 1, hint,
                                                          p.attributes());
    p.add(Pass::backward, backward,
          {reads(DNNL_ARG_DST, output(0, plain, fast)), reads(DNNL_ARG_DIFF_DST, output_gradient(0, plain, fast)),
           writes(DNNL_ARG_DIFF_SRC, input_gradient(0, plain, fast))});
  }

  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (setup.inputs[0].shape.rank() == 0) return "a scalar has no axis";
    return {};
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Softmax", "onednn", OnednnSoftmax);
}  // namespace d5::onednn
