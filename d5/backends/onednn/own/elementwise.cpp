// SPDX-License-Identifier: Apache-2.0
// Every elementwise operator: y = f(inputs), broadcast; the gradient of an input is dy times the slope, summed over the
// axes along which the input was broadcast. The functions are those of loops/; here their attributes become numbers.
#include <cmath>

#include "d5/backends/onednn/own/own_kernel.hpp"

namespace d5::onednn::own {
namespace {

std::string function_name(const Node& node) {
  const Attributes& a = node.attributes;
  if (node.op == "Gelu" && a.text("approximate", "none") == "tanh") return "Gelu tanh";
  if (node.op == "Mod" && a.flag("fmod", false)) return "Mod fmod";
  return node.op;
}

Parameters4 parameters_of(const Node& node) {
  const Attributes& a = node.attributes;
  const auto real = [&](const char* name, double otherwise) { return static_cast<float>(a.real(name, otherwise)); };
  const auto exponential = [](double gain, double width, double scale) {
    return Parameters4{static_cast<float>(gain), static_cast<float>(width), static_cast<float>(scale),
                       static_cast<float>(gain / width)};
  };
  if (node.op == "LeakyRelu") return {real("alpha", 0.01)};
  if (node.op == "ThresholdedRelu" || node.op == "Swish") return {real("alpha", 1)};
  if (node.op == "Elu") return exponential(a.real("alpha", 1), 1, 1);
  if (node.op == "Celu") return exponential(a.real("alpha", 1), a.real("alpha", 1), 1);
  if (node.op == "Selu") {
    const double gamma = a.real("gamma", 1.05070102214813232421875), alpha = a.real("alpha", 1.67326319217681884765625);
    return exponential(gamma * alpha, 1, gamma);
  }
  if (node.op == "HardSigmoid") return {real("alpha", 0.2), real("beta", 0.5)};
  if (node.op == "IsInf")
    return {a.flag("detect_negative", true) ? 1.0f : 0.0f, a.flag("detect_positive", true) ? 1.0f : 0.0f};
  return {};
}

// An input of Clip that is absent limits nothing.
size_t read_input(Traversal& walk, const KernelSetup& setup, size_t i) {
  if (i < setup.inputs.size() && setup.inputs[i].present) return walk.read(input(setup, i));
  return walk.constant(i == 1 ? -INFINITY : INFINITY);
}

// Whether dx is dy itself: y = x + something.
bool passes_gradient(const KernelSetup& setup, size_t i) {
  const std::string& op = setup.node.op;
  if (op != "Add" && op != "Sum" && !(op == "Sub" && i == 0)) return false;
  return setup.inputs[i].shape == setup.outputs[0].shape && setup.inputs[i].dtype == setup.outputs[0].dtype;
}

// Several in a row are one chain of functions of each tile. Where gradients are wanted only a Relu may follow: y tells
// where x was positive. In a network a gradient that is dy itself is passed on, and Relu alone looks at y, too, so that
// y may take the place of x.
class Elementwise final : public OwnKernel {
 public:
  bool fuses(const KernelSetup& setup) const override {
    const Follower& last = setup.followers.back();
    const TileFunctions* f = find_functions(function_name(last.node));
    if (!f || static_cast<size_t>(f->inputs) < last.inputs.size() || setup.inputs.size() > 24) return false;
    if (has_more_to_it(last.node.op)) return false;
    const bool gradients = std::ranges::find(setup.wants_gradient, true) != setup.wants_gradient.end();
    if (gradients && (setup.followers.size() > 1 || last.node.op != "Relu" || setup.node.op == "Relu")) return false;
    if (cannot(setup)) return false;
    // The result so far has the shape of the output, so that nothing is computed twice.
    const Shape& space = setup.outputs[0].shape;
    Shape so_far = setup.op.infer(head_inputs(setup))[0].shape;
    return so_far == space && setup.inputs[0].dtype == setup.outputs[0].dtype;
  }

 protected:
  bool follows_orders() const override { return true; }

  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    for (size_t i = 0; i < setup.node.inputs.size(); ++i)
      if (setup.wants_gradient[i] && !functions(function_name(setup.node)).gradients[i])
        return fmt::format("{} has no gradient with respect to input {}", setup.node.op, i);
    return OwnKernel::cannot(setup);
  }

  void build(const KernelSetup& setup) override {
    const TileFunctions& f = functions(function_name(setup.node));
    const Parameters4 parameters = parameters_of(setup.node);
    const Shape& space = setup.outputs[0].shape;
    const auto inputs = static_cast<size_t>(f.inputs);

    Traversal& forward = add_walk(Pass::forward, space);
    std::vector<size_t> sources;
    for (size_t i = 0; i < inputs; ++i) sources.push_back(read_input(forward, setup, head_index(setup, i)));
    std::vector<Link> chain{{f.value, sources, parameters}};
    for (const Follower& follower : setup.followers) chain.push_back(link_of(forward, setup, follower));
    forward.write(output(setup, 0), chain);

    const bool behind_relu = !setup.followers.empty();
    const bool by_output = setup.in_network && setup.node.op == "Relu";
    std::vector<Gradient> gradients;
    memory_.passes_gradient.resize(setup.inputs.size());
    memory_.same_gradient.assign(setup.inputs.size(), SIZE_MAX);
    size_t computed = SIZE_MAX;  // an input whose gradient others have, too
    for (size_t i = 0; i < setup.inputs.size(); ++i) {
      if (!setup.wants_gradient[i]) continue;
      if (setup.in_network && !setup.is_parameter[i] && passes_gradient(setup, i)) {
        if (!behind_relu) memory_.passes_gradient[i] = true;
        if (behind_relu && computed != SIZE_MAX) memory_.same_gradient[i] = computed;
        if (!behind_relu || computed != SIZE_MAX) continue;
        computed = i;
      }
      gradients.push_back({i, [&, i](Traversal& walk, size_t dy) -> std::vector<Link> {
                             std::vector<Link> links;
                             if (behind_relu) {
                               const size_t y = walk.read(output(setup, 0));
                               links.push_back({functions("Relu").gradients[0], {y, dy}});
                               dy = Link::previous;
                             }
                             std::vector<size_t> all;
                             for (size_t k = 0; k < inputs; ++k)
                               all.push_back(!(f.reads >> k & 1) ? dy
                                             : by_output         ? walk.read(output(setup, 0))
                                                                 : read_input(walk, setup, head_index(setup, k)));
                             all.push_back(dy);
                             links.push_back({f.gradients[i], all, parameters});
                             return links;
                           }});
    }
    add_gradients(setup, space, gradients);
  }

 private:
  static size_t head_index(const KernelSetup& setup, size_t i) {
    return i < setup.node.inputs.size() ? i : setup.inputs.size();
  }
  static std::vector<TensorSpec> head_inputs(const KernelSetup& setup) {
    return {setup.inputs.begin(), setup.inputs.begin() + static_cast<long>(setup.node.inputs.size())};
  }
  // An operator that has a function of its name but more to it (a loss).
  static bool has_more_to_it(const std::string& op) {
    return op == "MeanSquaredError" || op == "BinaryCrossEntropy" || op == "Max" || op == "Min";
  }

  static Link link_of(Traversal& walk, const KernelSetup& setup, const Follower& follower) {
    const TileFunctions& f = functions(function_name(follower.node));
    Link link{f.value, {}, parameters_of(follower.node)};
    for (size_t i = 0; i < static_cast<size_t>(f.inputs); ++i) {
      const size_t at = i < follower.inputs.size() ? follower.inputs[i] : Follower::absent;
      if (at == Follower::result)
        link.sources.push_back(Link::previous);
      else if (at == Follower::absent)
        link.sources.push_back(walk.constant(i == 1 ? -INFINITY : INFINITY));
      else
        link.sources.push_back(walk.read(input(setup, at)));
    }
    return link;
  }
};

// Sum, Mean, Max and Min of any number of inputs.
class Variadic final : public OwnKernel {
 protected:
  bool follows_orders() const override { return true; }
  std::optional<std::string> cannot(const KernelSetup& setup) const override {
    if (setup.inputs.size() > 24) return fmt::format("{} inputs; its kernel takes at most 24", setup.inputs.size());
    return OwnKernel::cannot(setup);
  }

  void build(const KernelSetup& setup) override {
    const std::string& op = setup.node.op;
    const bool extreme = op == "Max" || op == "Min";
    const Shape& space = setup.outputs[0].shape;
    const float share = op == "Mean" ? 1.0f / static_cast<float>(setup.inputs.size()) : 1.0f;
    const bool is_mean = op == "Mean" && setup.inputs.size() > 1;

    Traversal& forward = add_walk(Pass::forward, space);
    std::vector<Link> chain{{nullptr, {forward.read(input(setup, 0))}}};
    const TileFunction join = functions(extreme ? op : "Add").value;
    for (size_t i = 1; i < setup.inputs.size(); ++i)
      chain.push_back({join, {Link::previous, forward.read(input(setup, i))}});
    if (is_mean) {  // the last sum is scaled with it
      chain.back().function = functions("scaled sum").value;
      chain.back().parameters = {share};
    }
    forward.write(output(setup, 0), chain);

    std::vector<Gradient> gradients;
    memory_.passes_gradient.resize(setup.inputs.size());
    for (size_t i = 0; i < setup.inputs.size(); ++i) {
      if (!setup.wants_gradient[i]) continue;
      if (setup.in_network && !setup.is_parameter[i] && passes_gradient(setup, i)) {
        memory_.passes_gradient[i] = true;
        continue;
      }
      gradients.push_back({i, [&, i](Traversal& walk, size_t dy) -> std::vector<Link> {
                             if (!extreme) return {{functions("linear").value, {dy}, {share}}};
                             return {{functions("gradient of variadic max").value,
                                      {walk.read(input(setup, i)), walk.read(output(setup, 0)), dy}}};
                           }});
    }
    add_gradients(setup, space, gradients);
  }
};

// Losses of elements: l(a, b), as it is, summed, or the mean.
class ElementLoss final : public OwnKernel {
 protected:
  void build(const KernelSetup& setup) override {
    const TileFunctions& f = functions(setup.node.op);
    const std::string reduction = setup.node.attributes.text("reduction", "mean");
    const Shape& space = setup.inputs[0].shape;
    const float share = reduction == "mean" ? 1.0f / static_cast<float>(space.elements()) : 1.0f;

    Traversal& forward = add_walk(Pass::forward, space);
    const Link loss{f.value, {forward.read(input(setup, 0)), forward.read(input(setup, 1))}};
    if (reduction == "none")
      forward.write(output(setup, 0), {loss});
    else
      forward.reduce(output(setup, 0), {loss}, Reduce::sum, {functions("linear").value, {share}});

    std::vector<Gradient> gradients;
    for (const size_t i : {0, 1})
      if (setup.wants_gradient[i])
        gradients.push_back(
            {i, [&, i](Traversal& walk, size_t dy) -> std::vector<Link> {
               const size_t a = walk.read(input(setup, 0)), b = walk.read(input(setup, 1));
               return {{functions("linear").value, {dy}, {share}}, {f.gradients[i], {a, b, Link::previous}}};
             }});
    add_gradients(setup, space, gradients);
  }
};

}  // namespace

#define D5_ELEMENTWISE(op) D5_REGISTER_KERNEL(onednn, op, "builtin", Elementwise)
D5_ELEMENTWISE("Abs");
D5_ELEMENTWISE("Neg");
D5_ELEMENTWISE("Sign");
D5_ELEMENTWISE("Floor");
D5_ELEMENTWISE("Ceil");
D5_ELEMENTWISE("Round");
D5_ELEMENTWISE("Exp");
D5_ELEMENTWISE("Log");
D5_ELEMENTWISE("Sqrt");
D5_ELEMENTWISE("Reciprocal");
D5_ELEMENTWISE("Erf");
D5_ELEMENTWISE("Sin");
D5_ELEMENTWISE("Cos");
D5_ELEMENTWISE("Tan");
D5_ELEMENTWISE("Asin");
D5_ELEMENTWISE("Acos");
D5_ELEMENTWISE("Atan");
D5_ELEMENTWISE("Sinh");
D5_ELEMENTWISE("Cosh");
D5_ELEMENTWISE("Asinh");
D5_ELEMENTWISE("Acosh");
D5_ELEMENTWISE("Atanh");
D5_ELEMENTWISE("Not");
D5_ELEMENTWISE("IsNaN");
D5_ELEMENTWISE("IsInf");
D5_ELEMENTWISE("Relu");
D5_ELEMENTWISE("LeakyRelu");
D5_ELEMENTWISE("ThresholdedRelu");
D5_ELEMENTWISE("Elu");
D5_ELEMENTWISE("Celu");
D5_ELEMENTWISE("Selu");
D5_ELEMENTWISE("Sigmoid");
D5_ELEMENTWISE("Tanh");
D5_ELEMENTWISE("HardSigmoid");
D5_ELEMENTWISE("HardSwish");
D5_ELEMENTWISE("Gelu");
D5_ELEMENTWISE("Softplus");
D5_ELEMENTWISE("Softsign");
D5_ELEMENTWISE("Mish");
D5_ELEMENTWISE("Swish");
D5_ELEMENTWISE("Add");
D5_ELEMENTWISE("Sub");
D5_ELEMENTWISE("Mul");
D5_ELEMENTWISE("Div");
D5_ELEMENTWISE("Pow");
D5_ELEMENTWISE("Mod");
D5_ELEMENTWISE("PRelu");
D5_ELEMENTWISE("Equal");
D5_ELEMENTWISE("Greater");
D5_ELEMENTWISE("GreaterOrEqual");
D5_ELEMENTWISE("Less");
D5_ELEMENTWISE("LessOrEqual");
D5_ELEMENTWISE("And");
D5_ELEMENTWISE("Or");
D5_ELEMENTWISE("Xor");
D5_ELEMENTWISE("Where");
D5_ELEMENTWISE("Clip");
D5_REGISTER_KERNEL(onednn, "Sum", "builtin", Variadic);
D5_REGISTER_KERNEL(onednn, "Mean", "builtin", Variadic);
D5_REGISTER_KERNEL(onednn, "Max", "builtin", Variadic);
D5_REGISTER_KERNEL(onednn, "Min", "builtin", Variadic);
D5_REGISTER_KERNEL(onednn, "MeanSquaredError", "builtin", ElementLoss);
D5_REGISTER_KERNEL(onednn, "BinaryCrossEntropy", "builtin", ElementLoss);
}  // namespace d5::onednn::own
