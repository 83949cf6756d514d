// SPDX-License-Identifier: Apache-2.0
// What every training is, whatever a step of it does: epochs over the training set, a look at the test set after each,
// rules that end it, listeners, checkpoints, the order in which ranks take samples. A trainer (trainer.hpp, gan.hpp)
// derives from it and says what a step is, how a batch is tested, and which networks a checkpoint holds.
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
#include "d5/training/step_blocks.hpp"
#include "d5/training/stopping.hpp"
#include "d5/training/task.hpp"

namespace d5 {

using NetworkOfSize = std::function<Graph(Index samples, Mode)>;  // in the form that the mode asks for

struct TrainingSettings {
  NetworkOfSize network;  // without its loss
  std::string loss = "cross-entropy", task = "classification";
  std::shared_ptr<const Augmented> train, test;
  std::string sampler = "shuffle";
  Index batch = 64;      // samples of a step, of this rank
  Index accumulate = 1;  // micro-batches of a step
  int loader_threads = 1;
  // Of samples that cannot be read; but fail: others take their places in the training, and the test goes without them.
  OnError on_error = OnError::fail;
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

// Seconds of steps; what is left of `whole` is the trainer's own: metrics, events.
struct StepTimes {
  double whole = 0, input = 0, operators = 0, optimizer = 0;
  double waiting = 0;  // for other ranks, where the scheme measures it; not part of `optimizer`
  double residual() const { return whole - input - operators - optimizer - waiting; }
};

struct TrainingResult {
  std::string stopped;  // epochs | steps | target | plateau | time | diverged | what an event said
  std::string reason;   // of diverged: where
  std::vector<CurvePoint> curve;
  Index steps = 0, samples = 0;  // of all ranks together
  double seconds = 0, test_seconds = 0, checkpoint_seconds = 0;
  std::optional<double> seconds_to_target, epochs_to_target;
  // Of all steps but the first of each process, which touches pages and starts threads, unless there is no other.
  StepTimes times;
  struct {
    Index steps = 0, samples = 0;  // of all ranks
  } timed;
  bool waiting_known = false;
  StepMeans means;
  Index resumed_at = 0;              // step; 0: it began here
  struct {                           // samples that could not be read
    Index train = 0, test = 0;       // of all epochs; of the last test; of all ranks
    std::vector<std::string> first;  // a few, by rank 0
  } skipped;
  Scheme::Numbers scheme;  // what it measured of itself
  std::vector<std::string> warnings;
};

// The loss of one of several ranks is no number: the same would happen again.
class Diverged : public Error {
  using Error::Error;
};

class TrainingFrame {
 public:
  virtual ~TrainingFrame();

  TrainingResult run();

  ParameterSet& parameters() { return set_; }
  Evaluation& train_quality() { return *train_; }  // of the last epoch
  Evaluation& test_quality() { return *test_; }    // of the last test
  Index batches() const { return batches_; }       // micro-batches of an epoch
  virtual size_t bytes() const = 0;                // activations of all executables; parameters, gradients, state
  virtual Facts kernels() const = 0;

 protected:
  TrainingFrame(TrainingSettings, Backend&);  // UsageError where batch and data do not fit
  // At the end of a constructor, when the weights are there: the optimizer's state may begin at them. drops_last: the
  // short batch at the end of an epoch is left out.
  void make_parts(const TensorSpec& scores, bool drops_last);

  // Takes batches with next() and counts them in batch_; sets loss_, adds to train_. Answers with its seconds; the
  // frame measures `whole`.
  virtual StepTimes take_step(Loader&) = 0;
  virtual void test_batch(const Batch&, Index number) = 0;  // adds to test_
  virtual NamedTensors networks_to_save() = 0;              // with their optimizers (saved_training.hpp)
  virtual void restore_networks(const Checkpoint&) = 0;

  Moment moment() const;                            // of the next step
  const Sampler& order() const { return *order_; }  // of all ranks together
  Position position(Index samples_before, Index step_samples) const;
  const Batch& next(Loader&) const;
  void diverge(const std::string& loss);  // the training ends with this step not done
  bool diverged() const { return result_.stopped == "diverged"; }
  Index batches_of_epoch() const;
  Index samples_of_epoch() const { return training_sampler()->size(); }                // of this rank
  Index samples_of_step(Index micros) const;                                           // from batch_ on
  CompileOptions options_for(const Graph&, Mode, bool input_gradients = false) const;  // CannotRun where it cannot
  void initialise(const NetworkOfSize&, ParameterSet&, uint64_t seed) const;
  void before(TrainingEvent);
  void after(TrainingEvent);

  TrainingSettings settings_;
  Backend& backend_;
  Memory& staging_;                         // of batches
  ParameterSet set_;                        // what events and schemes see
  Index micro_ = 0;                         // samples of a micro-batch
  Index epoch_ = 0, batch_ = 0, step_ = 0;  // where the next micro-batch is; steps done
  double loss_ = 0;                         // of the last batch
  std::unique_ptr<Evaluation> train_, test_;
  std::unique_ptr<Optimizer> optimizer_;  // of set_
  std::unique_ptr<Scheme> scheme_;
  TrainingResult result_;

 private:
  Index whole_batches(Index samples) const { return (samples + (drops_last_ ? 0 : micro_ - 1)) / micro_; }
  std::shared_ptr<const Sampler> training_sampler() const;  // what this rank takes of it
  Index samples_of_micro_batch() const { return micro_ * settings_.ranks; }
  bool saves() const { return !settings_.checkpoint.file.empty(); }
  void train();
  bool run_epoch();  // false: the training ends within it
  void run_step(Loader&);
  void test();
  void end_epoch(bool whole);
  Index note_skipped(const LoaderCounts&);
  void note_waiting(bool counts);
  std::string interrupted(bool between_epochs);  // why it ends within an epoch; empty: it goes on
  void save();
  void load();
  void restore_scheme();
  double elapsed() const;
  double epoch_progress() const;  // 0 to 1
  TrainingView view() const;

  std::shared_ptr<const Sampler> order_;
  LoaderCounts epoch_counts_;
  std::unique_ptr<Schedule> schedule_;
  Index batches_ = 0;  // micro-batches of an epoch
  Index first_ = 0;    // of this epoch's order: what other numbers of ranks took before batch 0
  double began_ = 0, seconds_before_ = 0;
  bool testing_ = false, drops_last_ = false;
  StepBlocks blocks_;
  std::optional<StepTimes> first_step_;  // of this process
  Index first_samples_ = 0;              // of that step
  double waited_ = 0;                    // that the scheme told of so far
  NamedTensors scheme_state_;            // that was saved, until the scheme has begun
  std::vector<double> qualities_;        // of the test set after each epoch
};

// What is learned from: the output that is no running statistic.
std::string own_output(const Graph&);
Tensor as_f32(const Tensor&);
size_t bytes_of(const ParameterSet&, Optimizer&);  // parameters, gradients and the state of their optimizer

}  // namespace d5
