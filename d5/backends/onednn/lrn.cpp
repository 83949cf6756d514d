// SPDX-License-Identifier: Apache-2.0
// LRN by oneDNN's normalisation across channels, channels last where the layout is free. Forward keeps what backward
// needs.
#include "d5/backends/onednn/kernel.hpp"

namespace d5::onednn {
namespace {

class OnednnLrn final : public OnednnKernel {
 public:
  void arrange(KernelSetup& setup) const override {
    const AxisOrder last = channels_last_order(setup.inputs[0].shape.rank());
    const bool follows =
        setup.input_orders[0] == last && (!setup.training() || whole_vectors(dims_of(setup.inputs[0].shape)));
    Kernel::arrange(setup);
    if (follows) setup.input_orders[0] = setup.output_orders[0] = last;
  }

 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (setup.node.attributes.integer("size", 1) % 2 == 0)
      return "oneDNN's window lies evenly around a channel; an even size cannot";
    const size_t rank = setup.inputs[0].shape.rank();
    if (rank < 3 || rank > 5) return fmt::format("{} dimensions; oneDNN normalises 3 to 5", rank);
    const Dims dims = dims_of(setup.inputs[0].shape);
    const DType type = setup.inputs[0].dtype;
    if (setup.training() && !whole_vectors(dims) && row_major(type, dims) == channels_last(type, dims))
      return "oneDNN crashes while it makes the gradient's kernel for this number of channels, channels last";
    return {};
  }

  // Others crash oneDNN 3.2 while it makes the channels-last kernel of the gradient.
  static bool whole_vectors(const Dims& dims) { return dims[1] % 16 == 0 && dims.size() == 4; }

  void build(Program& p, const KernelSetup& setup) const override {
    const DType type = setup.inputs[0].dtype;
    const Dims dims = dims_of(setup.inputs[0].shape);
    const Desc plain = Images(setup).x;
    const bool free = p.chooses_input(0) && p.chooses_output(0) && (!setup.training() || whole_vectors(dims));
    const Desc x = free ? channels_last(type, dims) : plain;
    const auto across = dnnl::algorithm::lrn_across_channels;
    const auto kind = setup.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const Attributes& a = setup.node.attributes;
    const dnnl_dim_t size = a.integer("size", 1);
    const auto alpha = static_cast<float>(a.real("alpha", 1e-4)), beta = static_cast<float>(a.real("beta", 0.75)),
               bias = static_cast<float>(a.real("bias", 1));
    const dnnl::lrn_forward::primitive_desc forward(engine(), kind, across, x, x, size, alpha, beta, bias,
                                                    p.attributes());
    std::vector<Argument> arguments{reads(DNNL_ARG_SRC, input(0, plain, x)), writes(DNNL_ARG_DST, output(0, plain, x))};
    std::optional<Operand> kept;
    if (const Desc scales = forward.workspace_desc(); setup.training() && scales.get_size() > 0)
      arguments.push_back(writes(DNNL_ARG_WORKSPACE, kept.emplace(p.workspace(scales))));
    p.add(Pass::forward, forward, arguments);
    if (!setup.wants_gradient[0]) return;
    const dnnl::lrn_backward::primitive_desc backward(engine(), across, x, x, x, size, alpha, beta, bias, forward,
                                                      p.attributes());
    arguments = {reads(DNNL_ARG_SRC, input(0, plain, x)), reads(DNNL_ARG_DIFF_DST, output_gradient(0, plain, x)),
                 writes(DNNL_ARG_DIFF_SRC, input_gradient(0, plain, x))};
    if (kept) arguments.push_back(reads(DNNL_ARG_WORKSPACE, *kept));
    p.add(Pass::backward, backward, arguments);
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "LRN", "builtin", OnednnLrn);
}  // namespace d5::onednn
