// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/epilogue.hpp"

#include <cmath>

namespace d5::onednn {
namespace {

struct Activation {
  dnnl::algorithm algorithm;
  float alpha = 0, beta = 0;
};

// A limit of Clip: what is known of the input, or no limit.
std::optional<float> limit(const KernelSetup& setup, const Follower& follower, size_t i, float otherwise) {
  const size_t at = i < follower.inputs.size() ? follower.inputs[i] : Follower::absent;
  if (at == Follower::absent) return otherwise;
  if (at == Follower::result || !setup.inputs[at].known) return {};
  return static_cast<float>(setup.inputs[at].known->cast(DType::f64).values<double>()[0]);
}

std::optional<Activation> activation(const KernelSetup& setup, const Follower& follower) {
  using Algorithm = dnnl::algorithm;
  const std::string& op = follower.node.op;
  const Attributes& a = follower.node.attributes;
  const auto real = [&](const char* name, double otherwise) { return static_cast<float>(a.real(name, otherwise)); };
  if (op == "Relu") return Activation{Algorithm::eltwise_relu};
  if (op == "LeakyRelu") return Activation{Algorithm::eltwise_relu, real("alpha", 0.01)};
  if (op == "Sigmoid") return Activation{Algorithm::eltwise_logistic};
  if (op == "Tanh") return Activation{Algorithm::eltwise_tanh};
  if (op == "Elu") return Activation{Algorithm::eltwise_elu, real("alpha", 1)};
  if (op == "HardSwish") return Activation{Algorithm::eltwise_hardswish, 1.0f / 6.0f, 0.5f};
  if (op == "HardSigmoid") return Activation{Algorithm::eltwise_hardsigmoid, real("alpha", 0.2), real("beta", 0.5)};
  if (op == "Swish") return Activation{Algorithm::eltwise_swish, real("alpha", 1)};
  if (op == "Mish") return Activation{Algorithm::eltwise_mish};
  if (op == "Gelu")
    return Activation{a.text("approximate", "none") == "tanh" ? Algorithm::eltwise_gelu_tanh
                                                              : Algorithm::eltwise_gelu_erf};
  if (op == "Clip" && !follower.inputs.empty() && follower.inputs[0] == Follower::result) {
    const auto low = limit(setup, follower, 1, -INFINITY), high = limit(setup, follower, 2, INFINITY);
    if (low && high && *low <= *high) return Activation{Algorithm::eltwise_clip, *low, *high};
  }
  return {};
}

std::optional<dnnl::algorithm> binary(const Follower& follower) {
  if (follower.inputs.size() != 2) return {};
  if (follower.node.op == "Add") return dnnl::algorithm::binary_add;
  if (follower.node.op == "Mul") return dnnl::algorithm::binary_mul;
  return {};
}

size_t other_input(const Follower& follower) {
  return follower.inputs[0] == Follower::result ? follower.inputs[1] : follower.inputs[0];
}

// One value per channel: all axes but `channel` have one element, counted from the last.
bool is_per_channel(const Shape& shape, const Shape& output, size_t channel) {
  if (shape.rank() > output.rank()) return false;
  const size_t offset = output.rank() - shape.rank();
  for (size_t axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] != 1 && (axis + offset != channel || shape[axis] != output[channel])) return false;
  return true;
}

}  // namespace

bool Epilogue::takes(const KernelSetup& setup, size_t f, size_t channel) {
  const Follower& follower = setup.followers[f];
  if (activation(setup, follower)) return true;
  if (!binary(follower)) return false;
  const size_t other = other_input(follower);
  if (other == Follower::result || other == Follower::absent) return false;
  const TensorSpec& spec = setup.inputs[other];
  const TensorSpec& output = setup.outputs[0];
  return spec.dtype == output.dtype &&
         (spec.shape == output.shape || is_per_channel(spec.shape, output.shape, channel));
}

Epilogue::Epilogue(const KernelSetup& setup, size_t first, size_t channel, const Desc& result, size_t result_channel) {
  for (size_t f = first; f < setup.followers.size(); ++f) {
    const Follower& follower = setup.followers[f];
    if (const auto found = activation(setup, follower)) {
      operations_.append_eltwise(found->algorithm, found->alpha, found->beta);
      continue;
    }
    const size_t other = other_input(follower);
    const TensorSpec& spec = setup.inputs[other];
    const bool whole = spec.shape == setup.outputs[0].shape;
    const bool adds = follower.node.op == "Add";
    if (whole && adds && operations_.len() == 0 && !setup.dies.empty() && setup.dies[other] &&
        same_places(setup.input_order(other), setup.output_order(0), spec.shape)) {
      operations_.append_sum();
      in_place_ = other;
      continue;
    }
    Dims dims = result.get_dims();
    if (!whole) {
      dims.assign(dims.size(), 1);
      if (spec.elements() > 1) dims[result_channel] = setup.outputs[0].shape[channel];
    }
    const Desc desc = whole ? result : row_major(spec.dtype, dims);
    arguments_.push_back(reads(DNNL_ARG_ATTR_MULTIPLE_POST_OP(operations_.len()) | DNNL_ARG_SRC_1, input(other, desc)));
    operations_.append_binary(*binary(follower), desc);
  }
}

void Epilogue::append_to(std::vector<Argument>& arguments) const {
  arguments.insert(arguments.end(), arguments_.begin(), arguments_.end());
}

bool is_relu(const Follower& follower) { return follower.node.op == "Relu"; }

Operand add_relu_gradient(Program& program, const Operand& y, const Operand& dy) {
  const auto relu = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  const dnnl::eltwise_forward::primitive_desc hint(engine(), dnnl::prop_kind::forward_training, relu, y.wanted,
                                                   y.wanted, 0.0f, 0.0f, program.attributes());
  const dnnl::eltwise_backward::primitive_desc backward(engine(), relu, dy.wanted, dy.wanted, y.wanted, 0.0f, 0.0f,
                                                        hint, program.attributes());
  const Operand masked = program.temporary(Pass::backward, dy.wanted);
  program.add(Pass::backward, backward,
              {reads(DNNL_ARG_DST, y), reads(DNNL_ARG_DIFF_DST, dy), writes(DNNL_ARG_DIFF_SRC, masked)});
  return masked;
}

}  // namespace d5::onednn
