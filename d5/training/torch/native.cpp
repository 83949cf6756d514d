// SPDX-License-Identifier: Apache-2.0
// LibTorch's own optimizers, for comparison: what a user of that library runs. Part of the torch backend's module. They
// work on views of the parameter set, in f32, where it lies. `fused` calls the kernel that does a whole parameter in
// one pass (what PyTorch's fused=True calls); without it the classes of torch::optim run, an operator a pass. Weight
// decay is theirs, with exclusions as a parameter group of its own. The memory of torch:lbfgs cannot be seen, so
// it has no checkpoints.
#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/DeviceGuard.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <map>

#include "d5/core/error.hpp"
#include "d5/core/parallel.hpp"
#include "d5/training/optimizer.hpp"

namespace d5 {
namespace {

using Tensors = std::vector<at::Tensor>;

// Parameters that share a weight decay.
struct Group {
  Tensors parameters, gradients;
  std::vector<Index> offsets;
  double decay;
};

class Native : public Optimizer {
 public:
  Native(const Attributes& a, ParameterSet& set, const Modifiers& modifiers, std::string_view name)
      : set_(&set), base_rate_(a.real("learning_rate", 0)), rate_(base_rate_), name_(name) {
    if (set.compute_dtype() != DType::f32)
      throw Error("[{}] parameters are {}; LibTorch's optimizers are offered for f32", name,
                  d5::name(set.compute_dtype()));
    if (modifiers.clip_norm > 0 || modifiers.clip_value > 0)
      throw UsageError("[{}] clip_norm is {} and clip_value {}; LibTorch's optimizers do not clip: 0 is legal", name,
                       modifiers.clip_norm, modifiers.clip_value);
    for (const ParameterSet::Parameter& parameter : set.parameters()) {
      if (!parameter.trainable) continue;
      const double decay = modifiers.excludes(parameter) ? 0 : modifiers.weight_decay;
      auto group = std::ranges::find(groups_, decay, &Group::decay);
      if (group == groups_.end()) group = groups_.insert(group, Group{{}, {}, {}, decay});
      group->parameters.push_back(view(set.master(parameter.name)));
      group->gradients.push_back(view(set.gradient(parameter.name)));
      group->parameters.back().mutable_grad() = group->gradients.back();
      group->offsets.push_back(parameter.offset);
    }
  }

  void new_input(const Moment& moment) override {
    moment_ = moment;
    rate_ = base_rate_ * moment.rate_factor;
  }
  Division division() const override { return Division::whole; }
  double learning_rate() const override { return rate_; }
  std::vector<State> state() override { return states_; }

  void update(ParameterSet::Range range) override {
    if (range.first != 0 || range.count != set_->elements())
      throw Error("[{}] elements {} to {} are to be updated; LibTorch's optimizers update all of them", name_,
                  range.first, range.first + range.count);
    const c10::DeviceGuard guard(device_of(set_->masters({0, 0})));
    ready();
    step_all();
    set_->touch();
  }

 protected:
  virtual void step_all() = 0;

  void ready() {
    if (at::get_num_threads() != threads()) at::set_num_threads(threads());
    if (moment_.gradient_factor != 1)
      for (const Group& group : groups_)
        for (const at::Tensor& gradient : group.gradients) at::Tensor(gradient).mul_(moment_.gradient_factor);
  }

  // A state like the parameters, and its parts for each of a group.
  Tensor make_state(const std::string& name, double start = 0) {
    Tensor values(DType::f32, {set_->elements()});
    values.fill_bytes(0);
    for (const ParameterSet::Parameter& p : set_->parameters())
      std::ranges::fill(values.slice(p.offset, p.padded_elements).values<float>(), static_cast<float>(start));
    values = values.to(set_->masters({0, 0}).memory());
    states_.push_back({name, values, true});
    return values;
  }
  const Tensors& parts(const Tensor& state, const Group& group) {
    Tensors& result = parts_[{state.data(), &group}];
    if (!result.empty()) return result;
    for (size_t i = 0; i < group.offsets.size(); ++i)
      result.push_back(view(state.slice(group.offsets[i], group.parameters[i].numel())));
    return result;
  }
  // Steps done before this one, as fused kernels want them.
  Tensors steps(const Group& group, double count) const {
    return Tensors(group.parameters.size(), at::scalar_tensor(count, group.parameters.front().options()));
  }
  template <class Options>
  std::vector<torch::optim::OptimizerParamGroup> param_groups(const Options& options) const {
    std::vector<torch::optim::OptimizerParamGroup> result;
    for (const Group& group : groups_) {
      auto own = std::make_unique<Options>(options);
      if constexpr (requires { own->weight_decay(group.decay); }) own->weight_decay(group.decay);
      result.emplace_back(group.parameters, std::move(own));
    }
    return result;
  }
  // The class's state of a parameter is ours, so that a checkpoint sees it.
  template <class ParamState, class Fill>
  void share_state(torch::optim::Optimizer& optimizer, Fill fill) const {
    for (const Group& group : groups_)
      for (size_t i = 0; i < group.parameters.size(); ++i) {
        auto state = std::make_unique<ParamState>();
        fill(*state, [&](const Tensor& of) { return view(of.slice(group.offsets[i], group.parameters[i].numel())); });
        optimizer.state()[group.parameters[i].unsafeGetTensorImpl()] = std::move(state);
      }
  }
  template <class ParamState>
  void run(torch::optim::Optimizer& optimizer) const {
    for (auto& group : optimizer.param_groups()) group.options().set_lr(rate_);
    if constexpr (requires(ParamState & state) { state.step(int64_t{0}); })
      for (auto& [key, state] : optimizer.state()) static_cast<ParamState&>(*state).step(moment_.step - 1);
    optimizer.step();
  }

  static at::Device device_of(const Tensor& t) {
    return t.memory().is_host() ? at::Device(at::kCPU) : at::Device(t.memory().device());
  }
  static at::Tensor view(const Tensor& t) {
    const at::Device device = device_of(t);
    const auto options = at::dtype(at::kFloat).device(device);
    return at::for_blob(t.data(), {t.elements()}).options(options).target_device(device).make_tensor();
  }

  ParameterSet* set_;
  std::vector<Group> groups_;
  Moment moment_;
  double base_rate_, rate_;
  std::string name_;
  std::vector<State> states_;
  std::map<std::pair<const void*, const Group*>, Tensors> parts_;
};

const Parameter fused_parameter{"fused", "one kernel for each parameter, as with PyTorch's fused=True", true};

class TorchSgd final : public Native {
 public:
  static constexpr const char* about = "LibTorch's SGD";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "step size", 0.01},
            {"mu", "momentum; 0: none", 0.0},
            {"nesterov", "Nesterov's momentum", false},
            fused_parameter};
  }
  static std::vector<Limit> limits() { return {{"mu", 1}}; }
  TorchSgd(const Attributes& a, ParameterSet& set, const Modifiers& m)
      : Native(a, set, m, "torch:sgd"), mu_(a.real("mu", 0)), nesterov_(a.flag("nesterov", false)) {
    if (nesterov_ && mu_ == 0) throw UsageError("[torch:sgd] nesterov needs a mu that is not 0");
    if (mu_ != 0) velocity_ = make_state("momentum_buffer");
    if (a.flag("fused", true)) return;
    const auto options = torch::optim::SGDOptions(rate_).momentum(mu_).nesterov(nesterov_);
    class_ = std::make_unique<torch::optim::SGD>(param_groups(options), options);
    if (mu_ != 0)
      share_state<torch::optim::SGDParamState>(*class_,
                                               [&](auto& s, auto part) { s.momentum_buffer(part(velocity_)); });
  }
  void step_all() override {
    if (class_) return run<torch::optim::SGDParamState>(*class_);
    for (const Group& group : groups_)
      at::_fused_sgd_(group.parameters, group.gradients, mu_ != 0 ? parts(velocity_, group) : Tensors{}, group.decay,
                      mu_, rate_, 0, nesterov_, false, false);
  }

 private:
  double mu_;
  bool nesterov_;
  Tensor velocity_;
  std::unique_ptr<torch::optim::SGD> class_;
};

std::vector<Parameter> adam_parameters() {
  return {{"learning_rate", "step size", 0.001},
          {"beta1", "decay of the mean of gradients", 0.9},
          {"beta2", "decay of the mean of their squares", 0.999},
          {"epsilon", "added to the denominator", 1e-8},
          fused_parameter};
}

template <bool decoupled>
class TorchAdam final : public Native {
  using Class = std::conditional_t<decoupled, torch::optim::AdamW, torch::optim::Adam>;
  using Options = std::conditional_t<decoupled, torch::optim::AdamWOptions, torch::optim::AdamOptions>;
  using ParamState = std::conditional_t<decoupled, torch::optim::AdamWParamState, torch::optim::AdamParamState>;

 public:
  static constexpr const char* about = decoupled ? "LibTorch's AdamW" : "LibTorch's Adam";
  static std::vector<Parameter> parameters() {
    std::vector<Parameter> result = adam_parameters();
    if (decoupled)
      result.push_back({"weight_decay", "share of the parameter, times the step size, that is taken away", 0.01});
    return result;
  }
  static std::vector<Limit> limits() { return {{"beta1", 1, false}, {"beta2", 1, false}, {"epsilon"}}; }
  TorchAdam(const Attributes& a, ParameterSet& set, const Modifiers& m)
      : Native(a, set, m, decoupled ? "torch:adamw" : "torch:adam"),
        beta1_(a.real("beta1", 0)),
        beta2_(a.real("beta2", 0)),
        epsilon_(a.real("epsilon", 0)),
        mean_(make_state("exp_avg")),
        square_(make_state("exp_avg_sq")) {
    if (a.flag("fused", true)) return;
    class_ = std::make_unique<Class>(param_groups(Options(rate_).betas({beta1_, beta2_}).eps(epsilon_)));
    share_state<ParamState>(*class_, [&](auto& s, auto part) { s.exp_avg(part(mean_)).exp_avg_sq(part(square_)); });
  }
  void step_all() override {
    if (class_) return run<ParamState>(*class_);
    for (const Group& group : groups_) {
      const Tensors &means = parts(mean_, group), &squares = parts(square_, group);
      const Tensors count = steps(group, static_cast<double>(moment_.step));
      const auto call = decoupled ? &at::_ops::_fused_adamw_::call : &at::_ops::_fused_adam_::call;
      call(group.parameters, group.gradients, means, squares, {}, count, rate_, beta1_, beta2_, group.decay, epsilon_,
           false, false, {}, {});
    }
  }

 private:
  double beta1_, beta2_, epsilon_;
  Tensor mean_, square_;
  std::unique_ptr<Class> class_;
};

class TorchRmsProp final : public Native {
 public:
  static constexpr const char* about = "LibTorch's RMSprop";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "step size", 0.01},
            {"alpha", "decay of the mean of squares", 0.99},
            {"epsilon", "added to the denominator", 1e-8},
            {"mu", "momentum; 0: none", 0.0},
            {"centred", "divide by the deviation from the mean gradient", false}};
  }
  static std::vector<Limit> limits() { return {{"alpha", 1}, {"epsilon"}, {"mu", 1}}; }
  TorchRmsProp(const Attributes& a, ParameterSet& set, const Modifiers& m) : Native(a, set, m, "torch:rmsprop") {
    const double mu = a.real("mu", 0);
    const bool centred = a.flag("centred", false);
    class_ = std::make_unique<torch::optim::RMSprop>(param_groups(torch::optim::RMSpropOptions(rate_)
                                                                      .alpha(a.real("alpha", 0))
                                                                      .eps(a.real("epsilon", 0))
                                                                      .momentum(mu)
                                                                      .centered(centred)));
    const Tensor square = make_state("square_avg");
    const Tensor buffer = mu > 0 ? make_state("momentum_buffer") : Tensor{};
    const Tensor mean = centred ? make_state("grad_avg") : Tensor{};
    share_state<torch::optim::RMSpropParamState>(*class_, [&](auto& s, auto part) {
      s.square_avg(part(square));
      if (buffer.present()) s.momentum_buffer(part(buffer));
      if (mean.present()) s.grad_avg(part(mean));
    });
  }
  void step_all() override { run<torch::optim::RMSpropParamState>(*class_); }

 private:
  std::unique_ptr<torch::optim::RMSprop> class_;
};

class TorchAdagrad final : public Native {
 public:
  static constexpr const char* about = "LibTorch's Adagrad";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "step size", 0.01},
            {"rate_decay", "decay of the step size with steps", 0.0},
            {"start", "what the sum of squares starts from", 0.0},
            {"epsilon", "added to the denominator", 1e-10},
            fused_parameter};
  }
  static std::vector<Limit> limits() { return {{"rate_decay"}, {"start"}, {"epsilon"}}; }
  TorchAdagrad(const Attributes& a, ParameterSet& set, const Modifiers& m)
      : Native(a, set, m, "torch:adagrad"),
        rate_decay_(a.real("rate_decay", 0)),
        epsilon_(a.real("epsilon", 0)),
        sum_(make_state("sum", a.real("start", 0))) {
    if (a.flag("fused", true)) return;
    class_ = std::make_unique<torch::optim::Adagrad>(
        param_groups(torch::optim::AdagradOptions(rate_).lr_decay(rate_decay_).eps(epsilon_)));
    share_state<torch::optim::AdagradParamState>(*class_, [&](auto& s, auto part) { s.sum(part(sum_)); });
  }
  void step_all() override {
    if (class_) return run<torch::optim::AdagradParamState>(*class_);
    for (const Group& group : groups_)
      at::_fused_adagrad_(group.parameters, group.gradients, parts(sum_, group),
                          steps(group, static_cast<double>(moment_.step)), rate_, rate_decay_, group.decay, epsilon_,
                          false);
  }

 private:
  double rate_decay_, epsilon_;
  Tensor sum_;
  std::unique_ptr<torch::optim::Adagrad> class_;
};

class TorchLbfgs final : public Native {
 public:
  static constexpr const char* about = "LibTorch's LBFGS";
  static std::vector<Parameter> parameters() {
    return {{"learning_rate", "length of a step along the direction", 1.0},
            {"iterations", "at most, on one batch", int64_t{20}},
            {"evaluations", "at most, on one batch; 0: 5/4 of iterations", int64_t{0}},
            {"history", "how many steps are remembered", int64_t{100}},
            {"tolerance_gradient", "it is enough when no element of the gradient is larger", 1e-7},
            {"tolerance_change", "it is enough when the loss, or every element, changes by less", 1e-9},
            {"line_search", "none or strong_wolfe", std::string("none")}};
  }
  static std::vector<Limit> limits() { return {{"tolerance_gradient"}, {"tolerance_change"}}; }
  TorchLbfgs(const Attributes& a, ParameterSet& set, const Modifiers& m) : Native(a, set, m, "torch:lbfgs") {
    if (m.weight_decay > 0)
      throw UsageError("[torch:lbfgs] weight_decay is {}; LibTorch's has none: 0 is legal", m.weight_decay);
    const std::vector<std::string> legal{"none", "strong_wolfe"};
    const std::string search = a.text("line_search", "none");
    if (std::ranges::find(legal, search) == legal.end()) fail_unknown("[torch:lbfgs]", "line_search", search, legal);
    auto options = torch::optim::LBFGSOptions(rate_)
                       .max_iter(a.integer("iterations", 0))
                       .history_size(a.integer("history", 0))
                       .tolerance_grad(a.real("tolerance_gradient", 0))
                       .tolerance_change(a.real("tolerance_change", 0));
    if (a.integer("evaluations", 0) > 0) options.max_eval(a.integer("evaluations", 0));
    if (search != "none") options.line_search_fn(search);
    class_ = std::make_unique<torch::optim::LBFGS>(param_groups(options), options);
  }
  bool evaluates() const override { return true; }
  std::optional<std::string> why_no_checkpoint() const override {
    return "LibTorch keeps what it remembers of earlier steps to itself; legal: lbfgs, or no --checkpoint";
  }
  double step(Evaluate& evaluate) override {
    for (auto& group : class_->param_groups()) group.options().set_lr(rate_);
    const at::Tensor loss = class_->step([&] {
      set_->touch();
      const double value = evaluate.loss_and_gradients();
      ready();
      return at::scalar_tensor(value, at::kDouble);
    });
    set_->touch();
    return loss.item<double>();
  }
  void step_all() override {
    throw Error("[torch:lbfgs] it evaluates a batch several times: step() is there for that");
  }

 private:
  std::unique_ptr<torch::optim::LBFGS> class_;
};

}  // namespace
D5_REGISTER(optimizers, "torch:sgd", TorchSgd);
D5_REGISTER(optimizers, "torch:adam", TorchAdam<false>);
D5_REGISTER(optimizers, "torch:adamw", TorchAdam<true>);
D5_REGISTER(optimizers, "torch:rmsprop", TorchRmsProp);
D5_REGISTER(optimizers, "torch:adagrad", TorchAdagrad);
D5_REGISTER(optimizers, "torch:lbfgs", TorchLbfgs);
}  // namespace d5
