// SPDX-License-Identifier: Apache-2.0
// Another Conv for the backend onednn, on the library's own layouts: here oneDNN chooses every layout itself, where the
// built-in kernel insists on channels last. Forward, without groups. A source that includes a header of a backend is
// linked with that backend's module.
// Try it:   d5 op Conv --source examples/kernel/onednn_conv.cpp --backend onednn --kernel builtin,chosen
#include "d5/backends/onednn/kernel.hpp"
#include "d5/backends/onednn/window.hpp"

using namespace d5;
using namespace d5::onednn;

class ChosenConv final : public OnednnKernel {
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (setup.training()) return "chosen has no backward";
    if (setup.node.attributes.integer("group", 1) != 1) return "chosen has no groups";
    return {};
  }

  // Which primitives, and which tensors each of them reads and writes: the program reorders where it must.
  void build(Program& p, const KernelSetup& setup) const override {
    const Shape &x = setup.inputs[0].shape, &w = setup.inputs[1].shape, &y = setup.outputs[0].shape;
    const DType type = setup.inputs[0].dtype;
    const Window window(setup.node.attributes, spatial_sizes(x), spatial_sizes(w), "[chosen]");
    const WindowDims sizes(window, x.rank() - 2);
    const auto wanted = [&](const Shape& shape, bool free) {
      return free ? any_layout(type, dims_of(shape)) : row_major(type, dims_of(shape));
    };
    const bool has_bias = setup.inputs.size() > 2 && setup.inputs[2].present;
    const Desc bias = has_bias ? row_major(type, {w[0]}) : Desc();
    const dnnl::convolution_forward::primitive_desc conv(
        engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        wanted(x, p.chooses_input(0)), wanted(w, p.chooses_input(1)), bias, wanted(y, p.chooses_output(0)),
        sizes.strides, sizes.dilations, sizes.pads_before, sizes.pads_after, p.attributes());
    std::vector<Argument> arguments{reads(DNNL_ARG_SRC, input(0, row_major(type, dims_of(x)), conv.src_desc())),
                                    reads(DNNL_ARG_WEIGHTS, input(1, row_major(type, dims_of(w)), conv.weights_desc())),
                                    writes(DNNL_ARG_DST, output(0, row_major(type, dims_of(y)), conv.dst_desc()))};
    if (has_bias) arguments.push_back(reads(DNNL_ARG_BIAS, input(2, bias)));
    p.add(Pass::forward, conv, arguments);
  }
};

D5_REGISTER_KERNEL(onednn, "Conv", "chosen", ChosenConv);
