// SPDX-License-Identifier: Apache-2.0
// Who owns the update of a step. With one process that is the optimizer at once; with several, gradients or parameters
// meet first (distributed/schemes). The trainer calls
//   make_optimizer, begin_training once, when weights are there
//   in every step: begin_step, gradient_ready for every parameter while backward runs (only where the scheme overlaps),
//   then finish_step, which must call step.update() for every part of the arena once, or leave parameters as they
//   should be
//   begin_test, end_test around every look at the test set
//   state_to_save for every checkpoint, then state(); after begin_training of one that is resumed, state() is written
//   back
//   end_training once, with all steps done: it leaves the weights that were trained
// All ranks make the same calls in the same order, so any of them may meet in any call.
// A scheme file ends with D5_REGISTER(schemes, "dsgd", Dsgd). The class has static members
//   about         one line: whose scheme, what it does
//   parameters()  its named values with defaults
// and a constructor from the complete values and the communicator of the run, which is null in a single process.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "d5/backends/backend.hpp"
#include "d5/core/attributes.hpp"
#include "d5/core/registry.hpp"
#include "d5/operators/operator.hpp"
#include "d5/training/optimizer.hpp"

namespace d5 {

class Communicator;  // distributed/communicator.hpp

// One step as a scheme sees it. All views are native: the layouts of the parameter set.
class Step {
 public:
  Step(ParameterSet& parameters, Optimizer& optimizer, const Moment& moment)
      : parameters_(parameters), optimizer_(optimizer), moment_(moment) {}

  ParameterSet& parameters() const { return parameters_; }
  ParameterSet::Range all() const { return parameters_.all(); }
  Tensor gradients() const { return parameters_.gradients(all()); }  // the whole arena, rank 1
  const Moment& moment() const { return moment_; }
  const Optimizer& optimizer() const { return optimizer_; }
  void update(ParameterSet::Range);  // the optimizer's rule on this part, with the gradients that lie there now

 private:
  ParameterSet& parameters_;
  Optimizer& optimizer_;
  const Moment& moment_;
};

// What a scheme may need before the first step. Those that keep parameters of their own (servers) make an optimizer for
// them: the same rule, values and modifiers as the trainer's.
struct TrainingStart {
  ParameterSet& parameters;
  Optimizer& optimizer;
  std::function<std::unique_ptr<Optimizer>(ParameterSet&)> make_optimizer;
  uint64_t seed = 1;
  bool resumed = false;  // parameters and the optimizer's state are what this rank goes on with
};

class Scheme {
 public:
  // What a checkpoint must keep beside parameters and the optimizer's state; views that can be written back. Every rank
  // has the same names. Where another number of ranks goes on, each begins with the mean of what floats there were.
  using State = std::vector<std::pair<std::string, Tensor>>;
  using Numbers = std::vector<std::pair<std::string, double>>;

  virtual ~Scheme() = default;
  // The optimizer of this rank, by `make` with the part of the arena that it alone updates: there is state of no more.
  using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(ParameterSet::Range)>;
  virtual std::unique_ptr<Optimizer> make_optimizer(const ParameterSet& set, const MakeOptimizer& make) {
    return make(set.all());
  }
  virtual bool overlaps() const { return false; }       // wants gradient_ready: backward is then observed
  virtual void begin_training(const TrainingStart&) {}  // after initialisation or resumption: equal weights everywhere
  virtual bool in_step() const { return true; }         // all ranks finish a step together
  virtual void begin_step(Step&) {}
  virtual void gradient_ready(const Gradient&) {}  // from within backward; must not block
  virtual void finish_step(Step&) = 0;
  virtual void begin_test(ParameterSet&) {}  // makes the parameters those to be tested, the same on all ranks
  virtual void end_test(ParameterSet&) {}    // and those to go on with
  virtual void end_training(ParameterSet&) {}
  // Makes parameters those that a checkpoint should hold; answers with the optimizer's state of the whole arena, where
  // ranks have parts of it.
  virtual std::vector<Optimizer::State> state_to_save(ParameterSet&, Optimizer& optimizer) { return optimizer.state(); }
  virtual void abandon() noexcept {}  // after an error: when it returns, nobody reads or writes any buffer any more
  virtual State state() { return {}; }
  // Each number becomes its sum over all ranks, the same bits on all of them.
  virtual void sum_over_ranks(std::span<double>) {}
  // What it measured of itself: sent_bytes by this process for its steps, least_bytes that all ranks together must send
  // in a step whatever the algorithm, staleness, ...
  virtual Numbers measured() const { return {}; }
};

struct schemes {
  static constexpr const char* kind = "scheme";
  struct Entry {
    std::string about;
    std::vector<Parameter> parameters;
    std::function<std::unique_ptr<Scheme>(const Attributes&, Communicator*)> make;
  };
  template <class T>
  static Entry entry() {
    return {T::about, T::parameters(),
            [](const Attributes& values, Communicator* communicator) -> std::unique_ptr<Scheme> {
              return std::make_unique<T>(values, communicator);
            }};
  }
};

// UsageError on an unknown name or value, with the legal ones.
std::unique_ptr<Scheme> make_scheme(const std::string& name, const Attributes& values, Communicator*);

}  // namespace d5
