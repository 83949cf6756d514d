// SPDX-License-Identifier: Apache-2.0
// Who owns the update of a step. With one process that is the optimizer at once; with several, gradients or parameters
// meet first (distributed/schemes). The trainer calls, in every step:
//   begin_step, then gradient_ready for every parameter while backward runs (only where the scheme overlaps), then
//   finish_step, which must call step.update() for every part of the arena once, or leave parameters as they should be
// A scheme file ends with D5_REGISTER(schemes, "dsgd", Dsgd); its class is made from its values and the communicator of
// the run, which is null in a single process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "d5/backends/backend.hpp"
#include "d5/core/attributes.hpp"
#include "d5/core/registry.hpp"

namespace d5 {

class Communicator;  // distributed/communicator.hpp
class Optimizer;     // training/optimizer.hpp
struct Moment;

// One step as a scheme sees it. All views are native: the layouts of the parameter set.
class Step {
 public:
  Step(ParameterSet& parameters, Optimizer& optimizer, const Moment& moment)
      : parameters_(parameters), optimizer_(optimizer), moment_(moment) {}

  ParameterSet& parameters() const { return parameters_; }
  ParameterSet::Range all() const { return parameters_.all(); }
  Tensor gradients() const { return parameters_.gradients(all()); }  // the whole arena, rank 1
  const Moment& moment() const { return moment_; }
  void update(ParameterSet::Range);  // the optimizer's rule on this part, with the gradients that lie there now

 private:
  ParameterSet& parameters_;
  Optimizer& optimizer_;
  const Moment& moment_;
};

class Scheme {
 public:
  // What a checkpoint must keep beside parameters and the optimizer's state; views that can be written back.
  using State = std::vector<std::pair<std::string, Tensor>>;

  virtual ~Scheme() = default;
  virtual bool overlaps() const { return false; }  // wants gradient_ready: backward is then observed
  virtual void begin_training(ParameterSet&) {}    // after initialisation or resumption: equal weights on all ranks
  virtual void begin_step(Step&) {}
  virtual void gradient_ready(const Gradient&) {}  // from within backward; must not block
  virtual void finish_step(Step&) = 0;
  virtual void serve() {}  // ranks that do not train: until the others are done
  virtual State state() { return {}; }
};

struct schemes {
  static constexpr const char* kind = "scheme";
  struct Entry {
    std::function<std::unique_ptr<Scheme>(const Attributes&, Communicator*)> make;
  };
  template <class T>
  static Entry entry() {
    return {[](const Attributes& values, Communicator* communicator) -> std::unique_ptr<Scheme> {
      return std::make_unique<T>(values, communicator);
    }};
  }
};

}  // namespace d5
