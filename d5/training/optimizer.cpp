// SPDX-License-Identifier: Apache-2.0
#include "d5/training/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "d5/backends/backend.hpp"
#include "d5/core/error.hpp"
#include "d5/training/update.hpp"

namespace d5 {
namespace {

class FormulaOptimizer final : public Optimizer {
 public:
  FormulaOptimizer(std::unique_ptr<UpdateRule> rule, const Attributes& values, ParameterSet& set,
                   const Modifiers& modifiers, ParameterSet::Range part)
      : set_(&set), base_rate_(values.real("learning_rate", 0)), rate_(base_rate_), states_(set, part) {
    const auto per_parameter = [&](std::string_view name, const ParameterSet::Parameter& parameter) {
      if (name == "weight_decay") return modifiers.excludes(parameter) ? 0.0 : modifiers.weight_decay;
      if (name == "excluded") return modifiers.excludes(parameter) ? 1.0 : 0.0;
      throw Error("[formula] parameters have no value '{}'. Legal: excluded, weight_decay", name);
    };
    Formula before;
    rule->record_prepare(before);
    prepare_ = std::make_unique<Update>(before, set, states_, per_parameter);
    if (prepare_->assigns() && part.count > 0 && part.count < set.elements())
      throw UsageError(
          "[optimizer] parameters are moved before gradients are computed, which takes the state of all of them, and "
          "this scheme gives a rank a part of it; legal: scheme dsgd, or another optimizer");

    Formula own;  // recorded alone to see whether it decays weights itself
    rule->record(own);
    const bool decays = std::ranges::find(own.names(), "weight_decay") != own.names().end();
    Formula formula;
    record_modifiers(modifiers, !decays, formula);
    rule->record(formula);
    update_ = std::make_unique<Update>(formula, set, states_, per_parameter);
    FormulaOptimizer::new_input({});
  }

  void new_input(const Moment& moment) override {
    rate_ = base_rate_ * moment.rate_factor;
    for (Update* update : {prepare_.get(), update_.get()}) {
      update->set("learning_rate", rate_);
      update->set("step", static_cast<double>(moment.step));
      update->set("epoch", static_cast<double>(moment.epoch));
      update->set("gradient_factor", moment.gradient_factor);
    }
  }
  void prepare() override {
    if (prepare_->assigns()) prepare_->run(set_->all());
  }
  void update(ParameterSet::Range range) override { update_->run(range); }
  Division division() const override {
    return update_->needs_all() ? Division::whole : update_->uses_norms() ? Division::parameters : Division::elements;
  }
  std::vector<State> state() override {
    std::vector<State> result;
    for (const UpdateState::Entry& entry : states_.entries())
      result.push_back(
          {entry.name, entry.values, entry.like_parameters, entry.like_parameters ? states_.part().first : 0});
    return result;
  }
  double learning_rate() const override { return rate_; }

 private:
  ParameterSet* set_;
  double base_rate_, rate_;
  UpdateState states_;
  std::unique_ptr<Update> prepare_, update_;
};

const OptimizerEntry& entry_of(std::string_view name) {
  // Optimizers of a framework are in its backend's module.
  const size_t colon = name.find(':');
  if (colon != std::string_view::npos && find_registered<optimizers>(name.substr(0, colon)))
    throw UsageError("[{}] '{}' is no value; legal: name=value", name.substr(0, colon), name.substr(colon + 1));
  if (colon != std::string_view::npos && !find_registered<optimizers>(name))
    open_backend(std::string(name.substr(0, colon)));
  return registered<optimizers>(name);
}

}  // namespace

double Optimizer::step(Evaluate& evaluate) {
  prepare();
  const double loss = evaluate.loss_and_gradients();
  update(evaluate.parameters().all());
  return loss;
}

std::unique_ptr<Optimizer> make_formula_optimizer(std::unique_ptr<UpdateRule> rule, const Attributes& values,
                                                  ParameterSet& set, const Modifiers& modifiers,
                                                  ParameterSet::Range part) {
  return std::make_unique<FormulaOptimizer>(std::move(rule), values, set, modifiers, part);
}

std::vector<Parameter> optimizer_parameters(std::string_view name) {
  std::vector<Parameter> all = entry_of(name).parameters;
  for (Parameter& modifier : modifier_parameters())
    if (std::ranges::find(all, modifier.name, &Parameter::name) == all.end()) all.push_back(std::move(modifier));
  return all;
}

Attributes complete_optimizer_values(const OptimizerSettings& settings) {
  const Attributes values = complete_values(settings.name, optimizer_parameters(settings.name), settings.values);
  std::vector<Limit> limits = entry_of(settings.name).limits;
  limits.push_back({"learning_rate"});
  for (const Limit& limit : limits) {
    const double value = values.real(limit.name, 0);
    if (value >= 0 && std::isfinite(value) && (value < limit.most || (limit.most_is_legal && value == limit.most)))
      continue;
    throw UsageError("[{}] {} is {}; {} are legal", settings.name, limit.name, value,
                     std::isinf(limit.most)
                         ? "0 and more"
                         : fmt::format("0 to {}{:g}", limit.most_is_legal ? "" : "less than ", limit.most));
  }
  modifiers_from(values, settings.name);
  return values;
}

double scale_learning_rate(double rate, std::string_view rule, Index batch, Index reference_batch) {
  const std::vector<std::string> legal{"none", "linear", "sqrt"};
  if (std::ranges::find(legal, rule) == legal.end()) fail_unknown("[optimizer]", "scaling", rule, legal);
  if (rule == "none") return rate;
  if (batch < 1 || reference_batch < 1)
    throw UsageError("[optimizer] scaling {}: batch is {} and reference_batch {}; 1 and more are legal", rule, batch,
                     reference_batch);
  const double ratio = static_cast<double>(batch) / static_cast<double>(reference_batch);
  return rate * (rule == "linear" ? ratio : std::sqrt(ratio));
}

OptimizerSettings for_batch(OptimizerSettings settings, Index batch) {
  const Attributes values = complete_optimizer_values(settings);
  const double rate = scale_learning_rate(values.real("learning_rate", 0), values.text("scaling", "none"), batch,
                                          values.integer("reference_batch", 0));
  settings.values.set("learning_rate", rate);
  settings.values.set("scaling", std::string("none"));
  return settings;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, ParameterSet& set) {
  return make_optimizer(settings, set, set.all());
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings, ParameterSet& set,
                                          ParameterSet::Range part) {
  const Attributes values = complete_optimizer_values(settings);
  if (const std::string scaling = values.text("scaling", "none"); scaling != "none")
    throw UsageError("[{}] scaling is {}, and here nobody knows the batch; legal: none", settings.name, scaling);
  return entry_of(settings.name).make(values, set, modifiers_from(values, settings.name), part);
}

}  // namespace d5
