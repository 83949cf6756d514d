// SPDX-License-Identifier: Apache-2.0
// Trains a network on data until a rule says stop. A step, in this order:
//   sampling           the next batch of the loader, copied to the bound input
//   optimizer: new_input, prepare
//   forward, backward  once for every micro-batch (accumulate)
//   scheme: finish_step, which lets the optimizer update
// Everything random (weights, order, augmentation, dropout) is a function of the seed and the position, so a training
// that is resumed from a checkpoint at any batch gives the same weights, bit for bit.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "d5/training/bound_network.hpp"
#include "d5/training/checkpoint.hpp"
#include "d5/training/events.hpp"
#include "d5/training/schedule.hpp"
#include "d5/training/scheme.hpp"
#include "d5/training/stopping.hpp"
#include "d5/training/task.hpp"

namespace d5 {

struct TrainingSettings {
  std::function<Graph(Index samples, Mode)> network;  // without its loss, in the form that the mode asks for
  std::string loss = "cross-entropy", task = "classification";
  std::shared_ptr<const Augmented> train, test;
  std::string sampler = "shuffle";
  Index batch = 64;      // samples of a step, of this rank
  Index accumulate = 1;  // micro-batches of a step
  int loader_threads = 1;
  uint64_t seed = 1;
  OptimizerSettings optimizer;
  ScheduleSettings schedule;
  std::string scheme = "single";
  Attributes scheme_values;
  Communicator* communicator = nullptr;  // its rank and size are the next two (distributed/rank_scheme.hpp sets all)
  int rank = 0, ranks = 1;
  DType compute = DType::f32;  // bf16: masters stay f32
  CompileOptions compile;      // mode and keep are the trainer's
  StopRules stop;
  struct {
    std::string file;      // empty: none
    std::string from;      // where `file` is not there: another one to go on from, of another number of ranks
    Index every = 0;       // steps; 0: after every epoch
    bool resume = false;   // go on where the file ends, where there is one
    std::string identity;  // a flat JSON object: what must be the same to go on
  } checkpoint;
  std::vector<TrainingEvents*> events;
};

struct CurvePoint {
  Index epoch = 0, step = 0;  // done
  double seconds = 0;         // since the beginning, tests included
  double loss = 0, quality = 0, test_loss = 0, test_quality = 0;
  double learning_rate = 0;
};

// Seconds of all steps; what is left of `whole` is the trainer's own: metrics, events.
struct StepTimes {
  double whole = 0, input = 0, operators = 0, optimizer = 0;
  double residual() const { return whole - input - operators - optimizer; }
};

struct TrainingResult {
  std::string stopped;  // epochs | steps | target | plateau | time | diverged | what an event said
  std::string reason;   // of diverged: where
  std::vector<CurvePoint> curve;
  Index steps = 0, samples = 0;  // of all ranks together
  double seconds = 0, test_seconds = 0, checkpoint_seconds = 0;
  std::optional<double> seconds_to_target, epochs_to_target;
  StepTimes times;
  std::vector<double> step_seconds;  // means of consecutive steps, `step_block` each
  Index step_block = 1;
  Index resumed_at = 0;    // step; 0: it began here
  Scheme::Numbers scheme;  // what it measured of itself
  std::vector<std::string> warnings;
};

// The loss of one of several ranks is no number: the same would happen again.
class Diverged : public Error {
  using Error::Error;
};

class Trainer {
 public:
  Trainer(TrainingSettings, Backend&);  // compiles; UsageError where data, network and task do not fit
  ~Trainer();

  TrainingResult run();

  ParameterSet& parameters();
  Evaluation& train_quality();  // of the last epoch
  Evaluation& test_quality();   // of the last test
  Index batches() const;        // micro-batches of an epoch
  size_t bytes() const;         // activations of all executables; parameters, gradients and state of the optimizer
  Facts kernels() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

// The network that was trained, for others: inference form, weights as initial values.
Graph trained_graph(const TrainingSettings&, const ParameterSet&);

}  // namespace d5
