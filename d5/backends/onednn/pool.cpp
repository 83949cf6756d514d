// SPDX-License-Identifier: Apache-2.0
// MaxPool, AveragePool and their global forms by oneDNN's pooling, channels last where the layout is free. In training
// a maximum keeps where it was.
#include "d5/backends/onednn/kernel.hpp"
#include "d5/backends/onednn/window.hpp"

namespace d5::onednn {
namespace {

class OnednnPool : public OnednnKernel {
 public:
  void arrange(KernelSetup& setup) const override {
    const AxisOrder last = channels_last_order(setup.inputs[0].shape.rank());
    const bool follows = setup.input_orders[0] == last && !adds_narrow(setup);
    Kernel::arrange(setup);
    if (follows) setup.input_orders[0] = setup.output_orders[0] = last;
  }

 protected:
  virtual dnnl::algorithm algorithm(const KernelSetup&) const = 0;
  virtual Window window(const KernelSetup& setup) const {
    return Window(setup.node.attributes, spatial_sizes(setup.inputs[0].shape),
                  setup.node.attributes.integers("kernel_shape"), "[pool]");
  }

  void build(Program& p, const KernelSetup& setup) const override {
    const Shape& shape = setup.inputs[0].shape;
    const DType type = setup.inputs[0].dtype;
    const WindowDims w(window(setup), shape.rank() - 2);
    const Dims dims_x = dims_of(shape), dims_y = dims_of(setup.outputs[0].shape);
    const bool free = p.chooses_input(0) && p.chooses_output(0) && !adds_narrow(setup);
    const Images lying(setup);
    const Desc &plain_x = lying.x, &plain_y = lying.y;
    const Desc x = free ? channels_last(type, dims_x) : plain_x, y = free ? channels_last(type, dims_y) : plain_y;
    const auto kind = setup.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const dnnl::pooling_forward::primitive_desc forward(engine(), kind, algorithm(setup), x, y, w.strides, w.kernel,
                                                        w.dilations, w.pads_before, w.pads_after, p.attributes());
    std::vector<Argument> arguments{reads(DNNL_ARG_SRC, input(0, plain_x, x)),
                                    writes(DNNL_ARG_DST, output(0, plain_y, y))};
    const Desc positions = forward.workspace_desc();
    const bool keeps = setup.training() && positions.get_size() > 0;
    std::optional<Operand> kept;
    if (keeps) arguments.push_back(writes(DNNL_ARG_WORKSPACE, kept.emplace(p.workspace(positions))));
    p.add(Pass::forward, forward, arguments);
    if (!setup.wants_gradient[0]) return;
    const dnnl::pooling_backward::primitive_desc backward(engine(), algorithm(setup), x, y, w.strides, w.kernel,
                                                          w.dilations, w.pads_before, w.pads_after, forward,
                                                          p.attributes());
    arguments = {reads(DNNL_ARG_DIFF_DST, output_gradient(0, plain_y, y)),
                 writes(DNNL_ARG_DIFF_SRC, input_gradient(0, plain_x, x))};
    if (kept) arguments.push_back(reads(DNNL_ARG_WORKSPACE, *kept));
    p.add(Pass::backward, backward, arguments);
  }

 private:
  // Channels last, oneDNN adds bf16 gradients of overlapping windows in bf16; row-major it adds them in f32.
  static bool adds_narrow(const KernelSetup& setup) {
    return setup.inputs[0].dtype != DType::f32 && setup.wants_gradient[0];
  }
};

class OnednnMaxPool : public OnednnPool {
 protected:
  dnnl::algorithm algorithm(const KernelSetup&) const override { return dnnl::algorithm::pooling_max; }
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (setup.outputs.size() > 1 && setup.outputs[1].present)
      return "oneDNN tells where a maximum was within its window, not its index in X";
    return {};
  }
};

class OnednnAveragePool : public OnednnPool {
 protected:
  static bool counts_padding(const KernelSetup& setup) {
    return setup.node.attributes.integer("count_include_pad", 0) != 0;
  }
  dnnl::algorithm algorithm(const KernelSetup& setup) const override {
    return counts_padding(setup) ? dnnl::algorithm::pooling_avg_include_padding
                                 : dnnl::algorithm::pooling_avg_exclude_padding;
  }
  // Where ceil_mode lets the last window hang over the padding, ONNX counts the padding but not what lies beyond it.
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    const auto pads = setup.node.attributes.integers("pads");
    if (!counts_padding(setup) || setup.node.attributes.integer("ceil_mode", 0) == 0) return {};
    const size_t axes = setup.inputs[0].shape.rank() - 2;
    const WindowDims w(window(setup), axes);
    for (size_t i = 0; i < axes; ++i)
      if (w.pads_after[i] > (pads.empty() ? 0 : pads[axes + i]))
        return "oneDNN counts what lies beyond the padding, where ceil_mode lets the last window end";
    return {};
  }
};

// One window over all of each channel.
template <class Pool>
class Global final : public Pool {
 protected:
  Window window(const KernelSetup& setup) const override {
    const auto sizes = spatial_sizes(setup.inputs[0].shape);
    return Window({}, sizes, sizes, "[pool]");
  }
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    const size_t axes = setup.inputs[0].shape.rank() - 2;
    if (axes < 1 || axes > 3) return fmt::format("{} axes after the channels; oneDNN pools 1 to 3", axes);
    return {};
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "MaxPool", "builtin", OnednnMaxPool);
D5_REGISTER_KERNEL(onednn, "AveragePool", "builtin", OnednnAveragePool);
D5_REGISTER_KERNEL(onednn, "GlobalMaxPool", "builtin", Global<OnednnMaxPool>);
D5_REGISTER_KERNEL(onednn, "GlobalAveragePool", "builtin", Global<OnednnAveragePool>);
}  // namespace d5::onednn
