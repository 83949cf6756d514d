// SPDX-License-Identifier: Apache-2.0
// Trains a network on data until a rule says stop. A step, in this order:
//   sampling           the next batch of the loader, copied to the bound input
//   optimizer: new_input, prepare
//   forward, backward  once for every micro-batch (accumulate)
//   scheme: finish_step, which lets the optimizer update
#pragma once

#include "d5/training/training_frame.hpp"

namespace d5 {

class Trainer final : public TrainingFrame {
 public:
  Trainer(TrainingSettings, Backend&);  // compiles; UsageError where data, network and task do not fit

  size_t bytes() const override;
  Facts kernels() const override;

 private:
  StepTimes take_step(Loader&) override;
  void test_batch(const Batch&, Index number) override;
  NamedTensors networks_to_save() override;
  void restore_networks(const Checkpoint&) override;

  std::unique_ptr<BoundNetwork> compile(Index samples, Mode);
  BoundNetwork& learner(Index samples);
  BoundNetwork& tester(Index samples);
  bool learns_from_last();  // the short batch at the end of an epoch, where there is one
  void learn(BoundNetwork&, Position, bool adds, bool is_last);  // one micro-batch: loss and gradients

  std::string scores_;
  Feed feed_;
  std::map<Index, std::unique_ptr<BoundNetwork>> learners_, testers_;  // by samples
};

}  // namespace d5
