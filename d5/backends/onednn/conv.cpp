// SPDX-License-Identifier: Apache-2.0
// Conv by oneDNN's convolution. Fast layouts are channels last with weights as the library likes them; depthwise ones
// let it choose everything. Seen on one core of a Sapphire Rapids with oneDNN 3.2, f32, share of the peak (forward;
// gradient of X; of W), 3x3 64 -> 64 56x56 N16: channels last 86-92; 74-81; 76-81 %, all chosen by the library 84-86;
// 64-71; 69-81 %, row-major 39-45; 30-36; 32-38 %. Depthwise 3x3 112x112 N8 the other way: chosen 40; 33; 25 GFLOP/s,
// channels last 25; 24; 21.
// Weights lie as forward wants them. Backward wants them otherwise (with the forward layout only a plain loop is left),
// so each step reorders them and their gradient: part of its time, under 1 % of it in that case.
#include "d5/backends/onednn/kernel.hpp"
#include "d5/backends/onednn/window.hpp"

namespace d5::onednn {
namespace {

class OnednnConv final : public OnednnKernel {
 protected:
  bool knows_winograd() const override { return true; }

  void build(Program& p, const KernelSetup& setup) const override {
    const Shape &shape_x = setup.inputs[0].shape, &shape_w = setup.inputs[1].shape;
    const DType type = setup.inputs[0].dtype;
    const Index groups = setup.node.attributes.integer("group", 1), channels = shape_w[0];
    const auto kernel = spatial_sizes(shape_w);
    const Window window(setup.node.attributes, spatial_sizes(shape_x), kernel, "[conv]");
    const WindowDims w(window, shape_x.rank() - 2);
    const Dims dims_x = dims_of(shape_x), dims_y = dims_of(setup.outputs[0].shape);
    Dims dims_w = dims_of(shape_w);
    if (groups > 1) {
      dims_w[0] = channels / groups;
      dims_w.insert(dims_w.begin(), groups);
    }
    const Desc plain_x = row_major(type, dims_x), plain_y = row_major(type, dims_y), plain_w = row_major(type, dims_w);
    const Desc bias = row_major(type, {channels});

    const bool depthwise = groups > 1 && groups == shape_x[1] && groups == channels;
    const bool free = p.chooses_input(0) && p.chooses_output(0);
    const auto activation = [&](const Dims& dims, const Desc& plain) {
      return !free ? plain : depthwise ? any_layout(type, dims) : channels_last(type, dims);
    };
    const Desc x = activation(dims_x, plain_x), y = activation(dims_y, plain_y);
    const Desc weights = p.chooses_input(1) ? any_layout(type, dims_w) : plain_w;
    const auto algorithm = setup.options.math == Math::winograd ? dnnl::algorithm::convolution_winograd
                                                                : dnnl::algorithm::convolution_direct;
    const auto kind = setup.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;

    const bool has_bias = setup.inputs.size() > 2 && setup.inputs[2].present;
    using Forward = dnnl::convolution_forward::primitive_desc;
    const Forward forward = has_bias ? Forward(engine(), kind, algorithm, x, weights, bias, y, w.strides, w.dilations,
                                               w.pads_before, w.pads_after, p.attributes())
                                     : Forward(engine(), kind, algorithm, x, weights, y, w.strides, w.dilations,
                                               w.pads_before, w.pads_after, p.attributes());
    std::vector<Argument> arguments{reads(DNNL_ARG_SRC, input(0, plain_x, forward.src_desc())),
                                    reads(DNNL_ARG_WEIGHTS, input(1, plain_w, forward.weights_desc())),
                                    writes(DNNL_ARG_DST, output(0, plain_y, forward.dst_desc()))};
    if (has_bias) arguments.push_back(reads(DNNL_ARG_BIAS, input(2, bias)));
    p.add(Pass::forward, forward, arguments);

    if (setup.wants_gradient[0]) {
      const dnnl::convolution_backward_data::primitive_desc backward(engine(), algorithm, x, weights, y, w.strides,
                                                                     w.dilations, w.pads_before, w.pads_after, forward,
                                                                     p.attributes());
      p.add(Pass::backward, backward,
            {reads(DNNL_ARG_DIFF_DST, output_gradient(0, plain_y, backward.diff_dst_desc())),
             reads(DNNL_ARG_WEIGHTS, input(1, plain_w, backward.weights_desc())),
             writes(DNNL_ARG_DIFF_SRC, input_gradient(0, plain_x, backward.diff_src_desc()))});
    }
    const bool bias_gradient = has_bias && setup.wants_gradient[2];
    if (!setup.wants_gradient[1] && !bias_gradient) return;
    using Backward = dnnl::convolution_backward_weights::primitive_desc;
    const Backward backward = bias_gradient ? Backward(engine(), algorithm, x, weights, bias, y, w.strides, w.dilations,
                                                       w.pads_before, w.pads_after, forward, p.attributes())
                                            : Backward(engine(), algorithm, x, weights, y, w.strides, w.dilations,
                                                       w.pads_before, w.pads_after, forward, p.attributes());
    const Desc found = backward.diff_weights_desc();
    arguments = {reads(DNNL_ARG_SRC, input(0, plain_x, backward.src_desc())),
                 reads(DNNL_ARG_DIFF_DST, output_gradient(0, plain_y, backward.diff_dst_desc())),
                 writes(DNNL_ARG_DIFF_WEIGHTS, setup.wants_gradient[1] ? input_gradient(1, plain_w, found)
                                                                       : p.temporary(Pass::backward, found))};
    if (bias_gradient) arguments.push_back(writes(DNNL_ARG_DIFF_BIAS, input_gradient(2, bias)));
    p.add(Pass::backward, backward, arguments);
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Conv", "builtin", OnednnConv);
}  // namespace d5::onednn
