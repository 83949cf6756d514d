// SPDX-License-Identifier: Apache-2.0
// Reductions over any axes (ReduceSum, ..., ReduceLogSumExp): a function before, a combination, a function behind. What
// a gradient needs beside y (ties, the product without zeros) forward leaves in the workspace.
#include "d5/backends/onednn/own/own_kernel.hpp"
#include "d5/operators/known.hpp"

namespace d5::onednn::own {
namespace {

// The shape with every reduced axis of size 1.
Shape reduced_shape(const KernelSetup& setup) {
  const Shape& x = setup.inputs[0].shape;
  std::vector<Index> axes;
  if (setup.inputs.size() > 1 && setup.inputs[1].present) axes = known_integers(setup.inputs[1], "axes", "[reduce]");
  const bool all = axes.empty() && !setup.node.attributes.flag("noop_with_empty_axes", false);
  std::vector<Index> sizes = all ? std::vector<Index>(x.rank(), 1) : x.sizes();
  for (const Index axis : axes) sizes[valid_axis(axis, x.rank(), "[reduce]")] = 1;
  return Shape(sizes);
}

class ReduceKernel final : public OwnKernel {
 protected:
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (setup.inputs.size() > 1 && setup.inputs[1].present && !setup.inputs[1].known)
      return "its axes must be known before the run";
    if (auto reason = wrong_type(setup.inputs[0])) return reason;
    if (setup.inputs[0].dtype == DType::boolean && setup.node.op != "ReduceMax" && setup.node.op != "ReduceMin")
      return "its kernel reduces bool by Max and Min alone";
    return {};
  }

  void build(const KernelSetup& setup) override {
    const std::string op = setup.node.op.substr(6);  // without "Reduce"
    const Shape& space = setup.inputs[0].shape;
    Operand y = output(setup, 0), dy = output_gradient(setup, 0);
    y.shape = dy.shape = reduced_shape(setup);
    const bool gradient = setup.wants_gradient[0];
    const auto kept = [&]() {
      return Operand{Part::workspace, need_workspace(sizeof(float) * static_cast<size_t>(y.shape.elements())),
                     DType::f32, y.shape};
    };
    const float share =
        static_cast<float>(static_cast<double>(y.shape.elements()) / static_cast<double>(space.elements()));

    Reduce how = Reduce::sum;
    Finish finish;
    if (op == "Mean") finish = {functions("linear").value, {share}};
    if (op == "Max") how = gradient ? Reduce::max_ties : Reduce::max;
    if (op == "Min") how = gradient ? Reduce::min_ties : Reduce::min;
    if (op == "Prod") how = gradient ? Reduce::product_zeros : Reduce::product;
    if (op == "L1") how = Reduce::sum_of_magnitudes;
    if (op == "L2" || op == "SumSquare") how = Reduce::sum_of_squares;
    if (op == "L2") finish = {functions("Sqrt").value};
    if (op == "LogSum") {
      finish = {functions("Log").value};
      if (gradient) finish.keep_first = kept();  // y itself may be stored in fewer bits
    }
    if (op == "LogSumExp") {
      how = Reduce::log_sum_exp;
      finish = {functions("top and log").value};
    }
    if (how == Reduce::product_zeros) {
      finish.function = functions("product or zero").value;
      finish.keep_first = kept();
    }
    if (is_pair(how) && how != Reduce::log_sum_exp) finish.keep_second = kept();
    if (how == Reduce::max_ties || how == Reduce::min_ties) finish.function_of_second = functions("Reciprocal").value;

    Traversal& forward = add_walk(Pass::forward, space);
    forward.reduce(y, {{nullptr, {forward.read(input(setup, 0))}}}, how, finish);
    if (!gradient) return;

    Traversal& walk = add_walk(Pass::backward, space);
    const size_t from = walk.read(dy);
    const auto x = [&] { return walk.read(input(setup, 0)); };
    Link link;
    if (op == "Sum" || op == "Mean")
      link = {functions("linear").value, {from}, {op == "Sum" ? 1.0f : share}};
    else if (op == "Max" || op == "Min")
      link = {functions("gradient of max").value, {x(), walk.read(y), from, walk.read(*finish.keep_second)}};
    else if (op == "Prod")
      link = {functions("gradient of product").value,
              {x(), from, walk.read(*finish.keep_first), walk.read(*finish.keep_second)}};
    else if (op == "L1")
      link = {functions("gradient of l1").value, {x(), from}};
    else if (op == "L2")
      link = {functions("gradient of l2").value, {x(), walk.read(y), from}};
    else if (op == "SumSquare")
      link = {functions("gradient of square").value, {x(), from}};
    else if (op == "LogSum")
      link = {functions("Div").value, {from, walk.read(*finish.keep_first)}};
    else
      link = {functions("gradient of log sum exp").value, {x(), walk.read(y), from}};
    walk.write(input_gradient(setup, 0), {link});
  }
};

}  // namespace
D5_REGISTER_KERNEL(onednn, "ReduceSum", "builtin", ReduceKernel);
D5_REGISTER_KERNEL(onednn, "ReduceMean", "builtin", ReduceKernel);
D5_REGISTER_KERNEL(onednn, "ReduceMax", "builtin", ReduceKernel);
D5_REGISTER_KERNEL(onednn, "ReduceMin", "builtin", ReduceKernel);
D5_REGISTER_KERNEL(onednn, "ReduceProd", "builtin", ReduceKernel);
D5_REGISTER_KERNEL(onednn, "ReduceL1", "builtin", ReduceKernel);
D5_REGISTER_KERNEL(onednn, "ReduceL2", "builtin", ReduceKernel);
D5_REGISTER_KERNEL(onednn, "ReduceSumSquare", "builtin", ReduceKernel);
D5_REGISTER_KERNEL(onednn, "ReduceLogSum", "builtin", ReduceKernel);
D5_REGISTER_KERNEL(onednn, "ReduceLogSumExp", "builtin", ReduceKernel);
}  // namespace d5::onednn::own
