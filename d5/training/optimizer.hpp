// SPDX-License-Identifier: Apache-2.0
// How parameters move. Most optimizers are one formula: a class derived from UpdateRule with static members
//   about          one line: whose rule, which variant
//   parameters()   its named values with defaults, learning_rate first
//   limits()       where values have a range: what is legal
// and a constructor from the complete values; then one line, D5_REGISTER(optimizers, "adam", Adam);
// One that needs more (L-BFGS) derives from Optimizer itself and is made from the values, the parameters, the
// modifiers.
//
// A step has the original's three parts: new_input, prepare, (gradients are computed), update.
#pragma once

#include <concepts>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "d5/core/parameter_set.hpp"
#include "d5/core/registry.hpp"
#include "d5/training/formula.hpp"
#include "d5/training/modifiers.hpp"

namespace d5 {

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual void record(Formula&) const = 0;        // the update, from parameter, gradient and state
  virtual void record_prepare(Formula&) const {}  // before gradients are computed; may assign the parameter and state
};

// Where a run stands when a batch is seen.
struct Moment {
  Index step = 1;  // counts updates, from 1
  Index epoch = 0;
  double epoch_progress = 0;   // of this epoch, 0 to 1
  Index batch = 0;             // within the epoch
  double rate_factor = 1;      // of the optimizer's learning rate: the schedule's answer
  double gradient_factor = 1;  // gradients are multiplied by it first: 1 / micro-batches, 1 / ranks, 1 / loss scale
};

// One batch, evaluated as often as an optimizer asks; gradients land in the parameter set.
class Evaluate {
 public:
  virtual ~Evaluate() = default;
  virtual double loss_and_gradients() = 0;
  virtual double loss() = 0;
  virtual ParameterSet& parameters() = 0;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void new_input(const Moment&) = 0;  // before the batch is seen
  virtual void prepare() {}                   // moves parameters to where the gradient is wanted (AcceleGrad)
  // The rule, over a part of the arena: schemes call it for each bucket or shard, once for every element a step, in any
  // order. Results do not depend on how the arena is divided, nor on the number of threads.
  virtual void update(ParameterSet::Range) = 0;
  // How finely update() may be divided: a norm needs whole parameters, a norm over all of them the whole arena. Error
  // from update() for less.
  enum class Division { elements, parameters, whole };
  virtual Division division() const { return Division::elements; }
  // True: step() is called instead, and no scheme can divide it (L-BFGS).
  virtual bool evaluates() const { return false; }
  virtual double step(Evaluate&);  // after new_input; the loss. Default: prepare, loss_and_gradients, update(all)

  // What a checkpoint reads and writes, as views. Scalars are one f64. `like_parameters`: an f32 for each element of
  // the arena, in the parameters' layouts; of a part of it where the optimizer was made for one, from `first` on.
  struct State {
    std::string name;
    Tensor values;
    bool like_parameters = false;
    Index first = 0;
  };
  virtual std::vector<State> state() = 0;
  virtual std::optional<std::string> why_no_checkpoint() const { return {}; }  // where state() is not all there is
  virtual double learning_rate() const = 0;                                    // of the present moment
};

// From 0 to what a value means something.
struct Limit {
  std::string name;
  double most = std::numeric_limits<double>::infinity();
  bool most_is_legal = true;
};

struct OptimizerEntry {
  std::string about;
  std::vector<Parameter> parameters;  // the modifiers' are not among them
  std::function<std::unique_ptr<Optimizer>(const Attributes&, ParameterSet&, const Modifiers&, ParameterSet::Range)>
      make;
  std::vector<Limit> limits = {};
};

// An optimizer that runs a formula (update.hpp). Values are complete; the set is frozen and outlives it.
std::unique_ptr<Optimizer> make_formula_optimizer(std::unique_ptr<UpdateRule>, const Attributes& values, ParameterSet&,
                                                  const Modifiers&, ParameterSet::Range);

struct optimizers {
  static constexpr const char* kind = "optimizer";
  using Entry = OptimizerEntry;
  template <class T>
  static Entry entry() {
    std::vector<Limit> limits;
    if constexpr (requires { T::limits(); }) limits = T::limits();
    return {T::about, T::parameters(),
            [](const Attributes& values, ParameterSet& set, const Modifiers& modifiers,
               [[maybe_unused]] ParameterSet::Range part) -> std::unique_ptr<Optimizer> {
              if constexpr (std::derived_from<T, UpdateRule>)
                return make_formula_optimizer(std::make_unique<T>(values), values, set, modifiers, part);
              else
                return std::make_unique<T>(values, set, modifiers);
            },
            limits};
  }
};

struct OptimizerSettings {
  std::string name;
  Attributes values;  // learning_rate, the rule's own, the modifiers' (modifiers.hpp)
};
// UsageError on unknown optimizers and values, with the legal ones. A name "torch:adam" opens the backend before ':'.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings&, ParameterSet&);
// For updates of this part alone: a formula's state is of no more than that.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings&, ParameterSet&, ParameterSet::Range part);
// All values, defaults filled in: what a record says. UsageError where one is outside of what it can be.
Attributes complete_optimizer_values(const OptimizerSettings&);
// The rule's and the modifiers' values with their defaults.
std::vector<Parameter> optimizer_parameters(std::string_view name);

}  // namespace d5
