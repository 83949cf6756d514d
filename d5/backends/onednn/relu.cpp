// SPDX-License-Identifier: Apache-2.0
// Relu by oneDNN's eltwise primitive. It works on any dense layout, so row-major is as fast as any other.
#include "d5/backends/onednn/kernel.hpp"

namespace d5::onednn {
namespace {

class OnednnRelu final : public OnednnKernel {
 protected:
  void build(Program& p, const KernelSetup& setup) const override {
    const Desc desc = row_major(setup.inputs[0].dtype, {setup.inputs[0].elements()});
    const auto relu = dnnl::algorithm::eltwise_relu;
    const auto kind = setup.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const dnnl::eltwise_forward::primitive_desc forward(engine(), kind, relu, desc, desc, 0, 0, p.attributes());
    p.add(Pass::forward, forward, {reads(DNNL_ARG_SRC, input(0, desc)), writes(DNNL_ARG_DST, output(0, desc))});
    if (!setup.wants_gradient[0]) return;
    const dnnl::eltwise_backward::primitive_desc backward(engine(), relu, desc, desc, desc, 0, 0, forward,
                                                          p.attributes());
    p.add(Pass::backward, backward,
          {reads(DNNL_ARG_SRC, input(0, desc)), reads(DNNL_ARG_DIFF_DST, output_gradient(0, desc)),
           writes(DNNL_ARG_DIFF_SRC, input_gradient(0, desc))});
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Relu", "builtin", OnednnRelu);
}  // namespace d5::onednn
