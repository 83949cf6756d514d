// SPDX-License-Identifier: Apache-2.0
// BatchNormalization: in a network with channels last by our own kernel (own/batch_normalization.cpp), with what
// follows it; in training with channels first by our own one, too (own/normalization.cpp), where nothing follows;
// elsewhere by oneDNN, channels last where the layout is free. Statistics, scale and shift are f32 inside,
// whatever the data is. In training forward keeps the batch's mean and variance for backward, and the running ones are
//   running = momentum * running + (1 - momentum) * batch
// A Relu that follows is computed with it; forward keeps where it was positive.
#include "d5/backends/onednn/own/batch_normalization.hpp"
#include "d5/backends/onednn/chosen_kernel.hpp"
#include "d5/backends/onednn/epilogue.hpp"
#include "d5/backends/onednn/kernel.hpp"

namespace d5::onednn {
namespace {

class OnednnBatchNormalization final : public OnednnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (setup.wants_gradient[3] || setup.wants_gradient[4])
      return "oneDNN has no gradient with respect to the given mean and variance";
    if (setup.followers.size() > 1 || (!setup.followers.empty() && !is_relu(setup.followers[0])))
      return "oneDNN computes a Relu with it and nothing else";
    return {};
  }

  void build(Program& p, const KernelSetup& setup) const override {
    using Flags = dnnl::normalization_flags;
    const Attributes& a = setup.node.attributes;
    const bool batch_statistics = a.flag("training_mode", false);
    const Shape& shape = setup.inputs[0].shape;
    const DType type = setup.inputs[0].dtype;
    const Index channels = shape.rank() > 1 ? shape[1] : 1;
    const Dims dims{shape[0], channels, 1, shape.elements() / (shape[0] * channels)};
    const Desc plain = setup.input_order(0).empty() ? row_major(type, dims) : channels_last(type, dims),
               wide = row_major(DType::f32, {channels});
    const bool free = p.chooses_input(0) && p.chooses_output(0);
    const Desc fast = free ? channels_last(type, dims) : plain;
    const auto channel = [&](size_t i) { return row_major(setup.inputs[i].dtype, {channels}); };

    const auto epsilon = static_cast<float>(a.real("epsilon", 1e-5));
    const bool relu = !setup.followers.empty();
    const auto flags = Flags::use_scale | Flags::use_shift |
                       (batch_statistics ? Flags::none : Flags::use_global_stats) |
                       (relu ? Flags::fuse_norm_relu : Flags::none);
    const auto kind =
        batch_statistics || setup.training() ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    const dnnl::batch_normalization_forward::primitive_desc forward(engine(), kind, fast, fast, epsilon, flags,
                                                                    p.attributes());
    const Operand mean = batch_statistics ? p.workspace(wide) : input(3, channel(3), wide);
    const Operand variance = batch_statistics ? p.workspace(wide) : input(4, channel(4), wide);
    const Operand scale = input(1, channel(1), wide);
    std::vector<Argument> arguments{reads(DNNL_ARG_SRC, input(0, plain, fast)),
                                    reads(DNNL_ARG_SCALE, scale),
                                    reads(DNNL_ARG_SHIFT, input(2, channel(2), wide)),
                                    Argument{DNNL_ARG_MEAN, mean, batch_statistics},
                                    Argument{DNNL_ARG_VARIANCE, variance, batch_statistics},
                                    writes(DNNL_ARG_DST, output(0, plain, fast))};
    std::optional<Operand> positive;
    if (const Desc mask = forward.workspace_desc(); relu && mask.get_size() > 0)
      arguments.push_back(writes(DNNL_ARG_WORKSPACE, positive.emplace(p.workspace(mask))));
    p.add(Pass::forward, forward, arguments);
    if (batch_statistics) {
      const auto momentum = static_cast<float>(a.real("momentum", 0.9));
      add_running(p, setup, 1, input(3, channel(3), wide), mean, momentum);
      add_running(p, setup, 2, input(4, channel(4), wide), variance, momentum);
    }
    if (!setup.wants_gradient[0] && !setup.wants_gradient[1] && !setup.wants_gradient[2]) return;
    const dnnl::batch_normalization_backward::primitive_desc backward(engine(), dnnl::prop_kind::backward, fast, fast,
                                                                      fast, epsilon, flags, forward, p.attributes());
    const auto gradient = [&](size_t i, const Desc& row, const Desc& wanted) {
      return setup.wants_gradient[i] ? input_gradient(i, row, wanted) : p.temporary(Pass::backward, wanted);
    };
    arguments = {reads(DNNL_ARG_SRC, input(0, plain, fast)),
                 reads(DNNL_ARG_MEAN, mean),
                 reads(DNNL_ARG_VARIANCE, variance),
                 reads(DNNL_ARG_SCALE, scale),
                 reads(DNNL_ARG_DIFF_DST, output_gradient(0, plain, fast)),
                 writes(DNNL_ARG_DIFF_SRC, gradient(0, plain, fast)),
                 writes(DNNL_ARG_DIFF_SCALE, gradient(1, channel(1), wide)),
                 writes(DNNL_ARG_DIFF_SHIFT, gradient(2, channel(2), wide))};
    if (positive) arguments.push_back(reads(DNNL_ARG_WORKSPACE, *positive));
    p.add(Pass::backward, backward, arguments);
  }

 private:
  static void add_running(Program& p, const KernelSetup& setup, size_t i, const Operand& running, const Operand& batch,
                          float momentum) {
    if (setup.outputs.size() <= i || !setup.outputs[i].present) return;
    const Desc& wide = batch.wanted;
    const dnnl::sum::primitive_desc sum(engine(), wide, {momentum, 1 - momentum}, {wide, wide}, p.attributes());
    p.add(Pass::forward, sum,
          {reads(DNNL_ARG_MULTIPLE_SRC, running), reads(DNNL_ARG_MULTIPLE_SRC + 1, batch),
           writes(DNNL_ARG_DST, output(i, row_major(setup.outputs[i].dtype, wide.get_dims()), wide))});
  }
};

class BatchNormalization final : public ChosenKernel {
 public:
  std::optional<std::string> why_not(const KernelSetup& setup) const override { return choose(setup)->why_not(setup); }
  // A Relu, the sum with a tensor of the same shape, or that and then a Relu.
  bool fuses(const KernelSetup& setup) const override {
    const Follower& last = setup.followers.back();
    if (setup.inputs[0].dtype != DType::f32) return false;
    if (is_relu(last)) return setup.followers.size() == 1 || setup.followers[0].node.op == "Add";
    if (last.node.op != "Add" || setup.followers.size() > 1 || setup.inputs[0].shape.rank() < 3) return false;
    const size_t other = last.inputs[0] == Follower::result ? last.inputs[1] : last.inputs[0];
    return other != Follower::result && !setup.is_parameter[other] &&
           setup.inputs[other].shape == setup.outputs[0].shape && setup.inputs[other].dtype == DType::f32;
  }
  void arrange(KernelSetup& setup) const override { own::make_channels_last()->arrange(setup); }

 private:
  std::unique_ptr<Kernel> choose(const KernelSetup& setup) const override {
    if (setup.in_network && !own::why_not_channels_last(setup)) return own::make_channels_last();
    if (!own::why_not_channels_first(setup)) return own::make_channels_first();
    return std::make_unique<OnednnBatchNormalization>();
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "BatchNormalization", "builtin", BatchNormalization);
}  // namespace d5::onednn
