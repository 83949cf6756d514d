// SPDX-License-Identifier: Apache-2.0
// MaxPool by oneDNN's pooling, channels last where the layout is free. In training forward keeps where each maximum
// was.
#include "d5/backends/onednn/kernel.hpp"
#include "d5/backends/onednn/window.hpp"

namespace d5::onednn {
namespace {

class OnednnMaxPool final : public OnednnKernel {
 protected:
  void build(Program& p, const KernelSetup& setup) const override {
    const Shape& shape = setup.inputs[0].shape;
    const DType type = setup.inputs[0].dtype;
    const auto kernel = setup.node.attributes.integers("kernel_shape");
    const WindowDims w(Window(setup.node.attributes, spatial_sizes(shape), kernel, "[max_pool]"), shape.rank() - 2);
    const Dims dims_x = dims_of(shape), dims_y = dims_of(setup.outputs[0].shape);
    // Channels last, oneDNN adds bf16 gradients of overlapping windows in bf16; row-major it adds them in f32.
    const bool adds = type != DType::f32 && setup.wants_gradient[0];
    const bool free = p.chooses_input(0) && p.chooses_output(0) && !adds;
    const auto wanted = [&](const Dims& dims) { return free ? channels_last(type, dims) : row_major(type, dims); };
    const Desc plain_x = row_major(type, dims_x), plain_y = row_major(type, dims_y), x = wanted(dims_x),
               y = wanted(dims_y);
    const auto maximum = dnnl::algorithm::pooling_max;
    const auto kind = setup.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const dnnl::pooling_forward::primitive_desc forward(engine(), kind, maximum, x, y, w.strides, w.kernel, w.dilations,
                                                        w.pads_before, w.pads_after, p.attributes());
    std::vector<Argument> arguments{reads(DNNL_ARG_SRC, input(0, plain_x, x)),
                                    writes(DNNL_ARG_DST, output(0, plain_y, y))};
    const Desc positions = forward.workspace_desc();
    const bool keeps = setup.training() && positions.get_size() > 0;
    const Operand kept = keeps ? p.workspace(positions) : output(0, plain_y, y);
    if (keeps) arguments.push_back(writes(DNNL_ARG_WORKSPACE, kept));
    p.add(Pass::forward, forward, arguments);
    if (!setup.wants_gradient[0]) return;
    const dnnl::pooling_backward::primitive_desc backward(engine(), maximum, x, y, w.strides, w.kernel, w.dilations,
                                                          w.pads_before, w.pads_after, forward, p.attributes());
    p.add(Pass::backward, backward,
          {reads(DNNL_ARG_DIFF_DST, output_gradient(0, plain_y, y)), reads(DNNL_ARG_WORKSPACE, kept),
           writes(DNNL_ARG_DIFF_SRC, input_gradient(0, plain_x, x))});
  }

  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (setup.outputs.size() > 1 && setup.outputs[1].present)
      return "oneDNN tells where a maximum was within its window, not its index in X";
    return {};
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "MaxPool", "builtin", OnednnMaxPool);
}  // namespace d5::onednn
