// SPDX-License-Identifier: Apache-2.0
// The inside of a trainer. Private to training/trainer*.cpp.
#pragma once

#include "d5/training/step_blocks.hpp"
#include "d5/training/trainer.hpp"

namespace d5 {

class Trainer::Work {
 public:
  Work(TrainingSettings settings, Backend& backend);
  TrainingResult run();

  TrainingSettings settings_;
  Backend& backend_;
  ParameterSet set_;
  std::string scores_;
  Index micro_ = 0;                         // samples of a micro-batch
  Index batches_ = 0;                       // micro-batches of an epoch
  Index last_ = 0;                          // samples of the last of them
  Index epoch_ = 0, batch_ = 0, step_ = 0;  // where the next micro-batch is; steps done
  Index first_ = 0;                         // of this epoch's order: what other numbers of ranks took before batch 0
  std::unique_ptr<Evaluation> train_, test_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Schedule> schedule_;
  std::unique_ptr<Scheme> scheme_;
  std::map<Index, std::unique_ptr<BoundNetwork>> learners_, testers_;  // by samples
  TrainingResult result_;

 private:
  class Passing;  // gradients to the scheme
  class Retried;  // one batch as often as an optimizer asks
  std::unique_ptr<BoundNetwork> compile(Index samples, Mode);
  BoundNetwork& learner(Index samples);
  BoundNetwork& tester(Index samples);
  std::shared_ptr<const Sampler> training_sampler() const;
  Index batches_of_epoch() const;
  Index last_of_epoch() const;  // samples of its last micro-batch
  Index samples_of_micro_batch() const { return micro_ * settings_.ranks; }
  void initialise();
  Position position(Index samples_before, Index step_samples) const;

  void train();
  bool run_epoch();  // false: the training ends within it
  void take_step(Loader&);
  void see(BoundNetwork&, const Batch&);
  void test();
  void test_on(std::shared_ptr<const Sampler> order);
  void end_epoch(bool whole);
  std::string interrupted(bool between_epochs);  // why it ends within an epoch; empty: it goes on
  double elapsed() const;
  double epoch_progress() const;  // 0 to 1

  void save();
  void load();
  void restore_scheme();

  TrainingView view() const;
  void before(TrainingEvent);
  void after(TrainingEvent);

  Feed feed_;
  double began_ = 0, seconds_before_ = 0, loss_ = 0, step_input_ = 0, step_operators_ = 0;
  StepBlocks blocks_;
  bool testing_ = false, diverged_ = false, drops_last_ = false;
  NamedTensors scheme_state_;      // that was saved, until the scheme has begun
  std::vector<double> qualities_;  // of the test set after each epoch
};

}  // namespace d5
