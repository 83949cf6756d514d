// SPDX-License-Identifier: Apache-2.0
// ConvTranspose by oneDNN's deconvolution, channels last with weights as the library likes them where the layout is
// free. ONNX stores W as (C, K / groups, taps), oneDNN counts output channels first: the same bytes, seen turned.
#include <algorithm>

#include "d5/backends/onednn/kernel.hpp"
#include "d5/backends/onednn/window.hpp"

namespace d5::onednn {
namespace {

class OnednnConvTranspose final : public OnednnKernel {
 public:
  void arrange(KernelSetup& setup) const override {
    Kernel::arrange(setup);
    setup.input_orders[0] = setup.output_orders[0] = channels_last_order(setup.inputs[0].shape.rank());
  }

 protected:
  void build(Program& p, const KernelSetup& setup) const override {
    const Shape &shape_x = setup.inputs[0].shape, &shape_w = setup.inputs[1].shape, &shape_y = setup.outputs[0].shape;
    const DType type = setup.inputs[0].dtype;
    const Index groups = setup.node.attributes.integer("group", 1);
    WindowDims w(
        Window::transposed(setup.node.attributes, spatial_sizes(shape_x), spatial_sizes(shape_w), "[conv_transpose]"),
        shape_x.rank() - 2);
    // output_padding is what the window leaves unread at the end: less than a stride, which oneDNN rounds away.
    for (dnnl_dim_t& pad : w.pads_after) pad = std::max<dnnl_dim_t>(0, pad);
    const Dims dims_x = dims_of(shape_x), dims_y = dims_of(shape_y);
    const Images lying(setup);
    const Desc &plain_x = lying.x, &plain_y = lying.y;
    const Desc plain_w = turned_weights(type, shape_w, groups), bias = row_major(type, {shape_y[1]});
    const bool free = p.chooses_input(0) && p.chooses_output(0);
    const Desc x = free ? channels_last(type, dims_x) : plain_x, y = free ? channels_last(type, dims_y) : plain_y;
    const Desc weights = any_layout(type, plain_w.get_dims());
    const auto direct = dnnl::algorithm::deconvolution_direct;
    const auto kind = setup.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;

    const bool has_bias = setup.inputs.size() > 2 && setup.inputs[2].present;
    using Forward = dnnl::deconvolution_forward::primitive_desc;
    const Forward forward = has_bias ? Forward(engine(), kind, direct, x, weights, bias, y, w.strides, w.dilations,
                                               w.pads_before, w.pads_after, p.attributes())
                                     : Forward(engine(), kind, direct, x, weights, y, w.strides, w.dilations,
                                               w.pads_before, w.pads_after, p.attributes());
    std::vector<Argument> arguments{reads(DNNL_ARG_SRC, input(0, plain_x, x)),
                                    reads(DNNL_ARG_WEIGHTS, input(1, plain_w, forward.weights_desc())),
                                    writes(DNNL_ARG_DST, output(0, plain_y, y))};
    if (has_bias) arguments.push_back(reads(DNNL_ARG_BIAS, input(2, bias)));
    p.add(Pass::forward, forward, arguments);

    if (setup.wants_gradient[0]) {
      const dnnl::deconvolution_backward_data::primitive_desc backward(engine(), direct, x, weights, y, w.strides,
                                                                       w.dilations, w.pads_before, w.pads_after,
                                                                       forward, p.attributes());
      p.add(Pass::backward, backward,
            {reads(DNNL_ARG_DIFF_DST, output_gradient(0, plain_y, y)),
             reads(DNNL_ARG_WEIGHTS, input(1, plain_w, backward.weights_desc())),
             writes(DNNL_ARG_DIFF_SRC, input_gradient(0, plain_x, x))});
    }
    const bool bias_gradient = has_bias && setup.wants_gradient[2];
    if (!setup.wants_gradient[1] && !bias_gradient) return;
    using Backward = dnnl::deconvolution_backward_weights::primitive_desc;
    const Backward backward = bias_gradient ? Backward(engine(), direct, x, weights, bias, y, w.strides, w.dilations,
                                                       w.pads_before, w.pads_after, forward, p.attributes())
                                            : Backward(engine(), direct, x, weights, y, w.strides, w.dilations,
                                                       w.pads_before, w.pads_after, forward, p.attributes());
    const Desc found = backward.diff_weights_desc();
    arguments = {reads(DNNL_ARG_SRC, input(0, plain_x, x)), reads(DNNL_ARG_DIFF_DST, output_gradient(0, plain_y, y)),
                 writes(DNNL_ARG_DIFF_WEIGHTS, setup.wants_gradient[1] ? input_gradient(1, plain_w, found)
                                                                       : p.temporary(Pass::backward, found))};
    if (bias_gradient) arguments.push_back(writes(DNNL_ARG_DIFF_BIAS, input_gradient(2, bias)));
    p.add(Pass::backward, backward, arguments);
  }

 private:
  static Desc turned_weights(DType type, const Shape& shape, Index groups) {
    const Index c = shape[0] / groups, k = shape[1], taps = shape.elements(2, shape.rank());
    Dims dims{k, c}, strides{taps, k * taps};
    for (size_t i = 2; i < shape.rank(); ++i) {
      dims.push_back(shape[i]);
      strides.push_back(shape.elements(i + 1, shape.rank()));
    }
    if (groups > 1) {
      dims.insert(dims.begin(), groups);
      strides.insert(strides.begin(), c * k * taps);
    }
    return strided(type, dims, strides);
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "ConvTranspose", "builtin", OnednnConvTranspose);
}  // namespace d5::onednn
