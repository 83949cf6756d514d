// SPDX-License-Identifier: Apache-2.0
// Conv by oneDNN's convolution. Fast layouts are channels last with weights as the library likes them; depthwise ones
// let it choose everything where they are alone. Seen on one core of a Sapphire Rapids with oneDNN 3.2, f32, share of
// the peak (forward; gradient of X; of W), 3x3 64 -> 64 56x56 N16: channels last 86-92; 74-81; 76-81 %, all chosen by
// the library 84-86; 64-71; 69-81 %, row-major 39-45; 30-36; 32-38 %. Depthwise 3x3 112x112 N8 the other way: chosen
// 40; 33; 25 GFLOP/s, channels last 25; 24; 21. On a Zen 4 the library itself chooses channels last, depthwise, too.
// Weights lie as forward wants them. Backward wants them otherwise (with the forward layout only a plain loop is left),
// so each step reorders them and their gradient: part of its time, under 1 % of it in that case.
//
// In inference a BatchNormalization that follows is folded into weights and bias,
//   W' = W scale / s      B' = (B - mean) scale / s + shift      s = sqrt(var + epsilon)
// and what follows then (activations, the sum of a residual block) are post-ops. In training a Relu may follow.
#include <cmath>

#include "d5/backends/onednn/epilogue.hpp"
#include "d5/backends/onednn/kernel.hpp"
#include "d5/backends/onednn/window.hpp"

namespace d5::onednn {
namespace {

bool folds(const KernelSetup& setup) {
  return !setup.followers.empty() && setup.followers[0].node.op == "BatchNormalization";
}

// What the convolution reads in place of W and B.
struct FoldedWeights {
  Operand weights, bias;
};

class OnednnConv final : public OnednnKernel {
 public:
  bool fuses(const KernelSetup& setup) const override {
    if (setup.training()) return setup.followers.size() == 1 && is_relu(setup.followers[0]);
    const size_t last = setup.followers.size() - 1;
    if (last == 0 && folds(setup)) return can_fold(setup);
    return setup.options.math != Math::winograd && Epilogue::takes(setup, last, 1);
  }

  void arrange(KernelSetup& setup) const override {
    Kernel::arrange(setup);
    const AxisOrder last = channels_last_order(setup.inputs[0].shape.rank());
    setup.input_orders[0] = setup.output_orders[0] = last;
    for (size_t i = setup.node.inputs.size(); i < setup.inputs.size(); ++i)
      if (setup.inputs[i].shape == setup.outputs[0].shape) setup.input_orders[i] = last;
  }

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
    const Images lying(setup);
    const Desc &plain_x = lying.x, &plain_y = lying.y;
    const Desc plain_w = row_major(type, dims_w);
    const Desc bias = row_major(type, {channels});

    const bool depthwise = groups > 1 && groups == shape_x[1] && groups == channels;
    const bool free = p.chooses_input(0) && p.chooses_output(0);
    const auto activation = [&](const Dims& dims, const Desc& plain) {
      return !free ? plain : depthwise ? any_layout(type, dims) : channels_last(type, dims);
    };
    const Desc x = activation(dims_x, plain_x), y = activation(dims_y, plain_y);
    const bool folded = folds(setup);
    const Desc weights = p.chooses_input(1) || folded ? any_layout(type, dims_w) : plain_w;
    const auto algorithm = setup.options.math == Math::winograd ? dnnl::algorithm::convolution_winograd
                                                                : dnnl::algorithm::convolution_direct;
    const auto kind = setup.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;

    const Epilogue epilogue(setup, folded ? 1 : 0, 1, plain_y, 1);
    dnnl::primitive_attr attributes = p.attributes();
    attributes.set_post_ops(epilogue.operations());
    const bool given_bias = setup.node.inputs.size() > 2 && setup.inputs[2].present;
    const bool has_bias = given_bias || folded;
    using Forward = dnnl::convolution_forward::primitive_desc;
    const Forward forward = has_bias ? Forward(engine(), kind, algorithm, x, weights, bias, y, w.strides, w.dilations,
                                               w.pads_before, w.pads_after, attributes)
                                     : Forward(engine(), kind, algorithm, x, weights, y, w.strides, w.dilations,
                                               w.pads_before, w.pads_after, attributes);
    std::vector<Argument> arguments{reads(DNNL_ARG_SRC, input(0, plain_x, forward.src_desc())),
                                    writes(DNNL_ARG_DST, output(0, plain_y, forward.dst_desc()))};
    if (folded) {
      const FoldedWeights made = fold(p, setup, plain_w, forward.weights_desc());
      arguments.push_back(reads(DNNL_ARG_WEIGHTS, made.weights));
      arguments.push_back(reads(DNNL_ARG_BIAS, made.bias));
    } else {
      arguments.push_back(reads(DNNL_ARG_WEIGHTS, input(1, plain_w, forward.weights_desc())));
      if (has_bias) arguments.push_back(reads(DNNL_ARG_BIAS, input(2, bias)));
    }
    epilogue.append_to(arguments);
    if (epilogue.in_place()) p.must_take_the_place_of(*epilogue.in_place());
    p.add(Pass::forward, forward, arguments);
    if (!setup.wants_gradient[0] && !setup.wants_gradient[1] && !(given_bias && setup.wants_gradient[2])) return;

    // Gradients want what was prepared without post-ops.
    const Forward hint = setup.followers.empty() ? forward
                         : has_bias ? Forward(engine(), kind, algorithm, x, weights, bias, y, w.strides, w.dilations,
                                              w.pads_before, w.pads_after, p.attributes())
                                    : Forward(engine(), kind, algorithm, x, weights, y, w.strides, w.dilations,
                                              w.pads_before, w.pads_after, p.attributes());
    std::optional<Operand> masked;
    const auto gradient = [&](const Desc& wanted) {
      const Operand dy = output_gradient(0, plain_y, wanted);
      if (setup.followers.empty()) return dy;
      if (!masked) masked = add_relu_gradient(p, output(0, plain_y, wanted), dy);
      return *masked;
    };
    if (setup.wants_gradient[0]) {
      const bool block = is_one_block(x) && is_one_block(y) && !free;
      const Desc &dx = block ? one_block(x) : x, &dy = block ? one_block(y) : y;
      const Forward of_blocks = block ? Forward(engine(), kind, algorithm, dx, weights, dy, w.strides, w.dilations,
                                                w.pads_before, w.pads_after, p.attributes())
                                      : hint;
      const dnnl::convolution_backward_data::primitive_desc backward(engine(), algorithm, dx, weights, dy, w.strides,
                                                                     w.dilations, w.pads_before, w.pads_after,
                                                                     of_blocks, p.attributes());
      Operand from = gradient(block ? y : backward.diff_dst_desc());
      if (block) from.plain = from.wanted = dy;
      p.add(Pass::backward, backward,
            {reads(DNNL_ARG_DIFF_DST, from), reads(DNNL_ARG_WEIGHTS, input(1, plain_w, backward.weights_desc())),
             writes(DNNL_ARG_DIFF_SRC, input_gradient(0, block ? dx : plain_x, backward.diff_src_desc()))});
    }
    const bool bias_gradient = given_bias && setup.wants_gradient[2];
    if (!setup.wants_gradient[1] && !bias_gradient) return;
    using Backward = dnnl::convolution_backward_weights::primitive_desc;
    const Backward backward = bias_gradient ? Backward(engine(), algorithm, x, weights, bias, y, w.strides, w.dilations,
                                                       w.pads_before, w.pads_after, hint, p.attributes())
                                            : Backward(engine(), algorithm, x, weights, y, w.strides, w.dilations,
                                                       w.pads_before, w.pads_after, hint, p.attributes());
    const Desc found = backward.diff_weights_desc();
    arguments = {reads(DNNL_ARG_SRC, input(0, plain_x, backward.src_desc())),
                 reads(DNNL_ARG_DIFF_DST, gradient(backward.diff_dst_desc())),
                 writes(DNNL_ARG_DIFF_WEIGHTS, setup.wants_gradient[1] ? input_gradient(1, plain_w, found)
                                                                       : p.temporary(Pass::backward, found))};
    if (bias_gradient) arguments.push_back(writes(DNNL_ARG_DIFF_BIAS, input_gradient(2, bias)));
    p.add(Pass::backward, backward, arguments);
  }

 private:
  // With 16 channels, channels last and blocks of 16 channels are the same bytes, and the gradient of X is faster by
  // blocks: 2.7 instead of 3.7 ms for 3x3 16 -> 16 32x32 N128 on one core of a Zen 5. The gradient of W is not.
  static bool is_one_block(const Desc& images) {
    const Dims dims = images.get_dims();
    return dims.size() == 4 && dims[1] == 16 && images.get_data_type() == dnnl::memory::data_type::f32 &&
           images == channels_last(DType::f32, dims);
  }
  static Desc one_block(const Desc& images) {
    return {images.get_dims(), images.get_data_type(), dnnl::memory::format_tag::nChw16c};
  }

  static bool can_fold(const KernelSetup& setup) {
    const Follower& normalization = setup.followers[0];
    if (normalization.node.attributes.flag("training_mode", false)) return false;
    for (size_t i = 0; i < setup.inputs.size(); ++i)
      if (setup.inputs[i].present && (setup.inputs[i].dtype != DType::f32 || (i > 0 && !setup.is_parameter[i])))
        return false;
    return normalization.inputs[0] == Follower::result;
  }

  static FoldedWeights fold(Program& p, const KernelSetup& setup, const Desc& plain, const Desc& wanted) {
    const Index channels = setup.inputs[1].shape[0], per_channel = setup.inputs[1].elements() / channels;
    const FoldedWeights made{p.workspace(wanted), p.workspace(row_major(DType::f32, {channels}))};
    const bool has_bias = setup.node.inputs.size() > 2 && setup.inputs[2].present;
    const std::vector<size_t> of = setup.followers[0].inputs;  // scale, shift, mean, variance from 1 on
    const double epsilon = setup.followers[0].node.attributes.real("epsilon", 1e-5);
    p.derive([=](const Buffers& b) {
      const auto floats = [&](size_t i) { return static_cast<const float*>(b.inputs[i]); };
      const auto kept = [&](const Operand& o) { return static_cast<char*>(b.workspace) + o.index; };
      std::vector<float> scaled(static_cast<size_t>(channels * per_channel));
      auto* bias = reinterpret_cast<float*>(kept(made.bias));
      for (Index c = 0; c < channels; ++c) {
        const double factor = floats(of[1])[c] / std::sqrt(floats(of[4])[c] + epsilon);
        for (Index i = c * per_channel; i < (c + 1) * per_channel; ++i)
          scaled[static_cast<size_t>(i)] = static_cast<float>(floats(1)[i] * factor);
        const double before = has_bias ? floats(2)[c] : 0.0;
        bias[c] = static_cast<float>((before - floats(of[3])[c]) * factor + floats(of[2])[c]);
      }
      dnnl::memory from(plain, engine(), scaled.data()), to(wanted, engine(), kept(made.weights));
      dnnl::reorder(from, to).execute(stream(), from, to);
      stream().wait();
    });
    return made;
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "Conv", "builtin", OnednnConv);
}  // namespace d5::onednn
