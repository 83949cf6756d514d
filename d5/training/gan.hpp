// SPDX-License-Identifier: Apache-2.0
// Two networks against each other (Goodfellow et al., 2014, with the generator's loss that does not saturate). A step:
//   noise z of the seed and the step's number, x the next batch
//   discriminator   down the gradient of  -log D(x) - log(1 - D(G(z)))
//   generator       down the gradient of  -log D(G(z)) with the new D: its input gradient is G's output gradient
// Each network has its own parameters and its own optimizer of the same settings. Batches that are short are left out:
// normalisation needs a whole one. Everything random is a function of the seed and the position.
#pragma once

#include "d5/training/step_blocks.hpp"
#include "d5/training/trainer.hpp"

namespace d5 {

class AdversarialTrainer {
 public:
  using Network = std::function<Graph(Index samples, Mode)>;
  // settings.network is the generator, of noise; the discriminator gives one logit for an image. UsageError where they
  // do not fit each other, or the data.
  AdversarialTrainer(TrainingSettings, Network discriminator, Backend&);

  TrainingResult run();

  ParameterSet& parameters() { return made_; }  // the generator's
  ParameterSet& discriminator_parameters() { return judged_; }
  Evaluation& train_quality() { return *train_; }
  Evaluation& test_quality() { return *test_; }
  Index batches() const { return batches_; }
  size_t bytes() const;
  Facts kernels() const { return generator_.executable->kernels(); }

 private:
  struct Generator {
    std::unique_ptr<Executable> executable;
    std::string noise, image;
    TensorSpec noise_spec, image_spec;
    std::vector<std::pair<std::string, std::string>> statistics;
  };
  struct Tester {
    Generator generator;
    std::unique_ptr<BoundNetwork> judge;
  };
  Generator compile_generator(Index samples, Mode);
  std::unique_ptr<BoundNetwork> compile_judge(Index samples, Mode, bool input_gradients);
  void initialise(const Network&, ParameterSet&, uint64_t seed) const;
  void choose_image();
  Tensor generate(Generator&, const std::string& stream, Index number) const;
  Tensor real_images(const Batch&) const;
  double judge(BoundNetwork&, const Tensor& images, double target, Position) const;  // the loss

  bool run_epoch();
  void take_step(Loader&);
  void update_generator(const Tensor& images, Position);
  void test();
  void end_epoch();
  void save();
  void load();
  std::string interrupted() const;
  double elapsed() const;
  TrainingView view() const;
  void before(TrainingEvent);
  void after(TrainingEvent);

  TrainingSettings settings_;
  Network discriminator_;
  Backend& backend_;
  ParameterSet made_, judged_;
  Generator generator_;
  std::string judged_image_;              // the discriminator's input
  std::unique_ptr<BoundNetwork> judge_;   // learns
  std::unique_ptr<BoundNetwork> critic_;  // the same parameters; its input gradient is wanted
  std::map<Index, Tester> testers_;       // by samples
  std::unique_ptr<Optimizer> maker_, judge_optimizer_;
  std::unique_ptr<Schedule> schedule_;
  std::unique_ptr<Evaluation> train_, test_;
  size_t image_ = 0;  // the field of the data
  Index batches_ = 0, epoch_ = 0, batch_ = 0, step_ = 0;
  double began_ = 0, seconds_before_ = 0, loss_ = 0, judge_loss_ = 0;
  bool testing_ = false, diverged_ = false;
  std::vector<double> qualities_;
  StepBlocks blocks_;
  TrainingResult result_;
};

}  // namespace d5
