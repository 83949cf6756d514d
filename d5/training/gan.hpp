// SPDX-License-Identifier: Apache-2.0
// Two networks against each other (Goodfellow et al., 2014, with the generator's loss that does not saturate). A step:
//   noise z of the seed and the step's number, x the next batch
//   discriminator   down the gradient of  -log D(x) - log(1 - D(G(z)))
//   generator       down the gradient of  -log D(G(z)) with the new D: its input gradient is G's output gradient
// Each network has its own parameters and its own optimizer of the same settings. Batches that are short are left out:
// normalisation needs a whole one. Everything random is a function of the seed and the position.
#pragma once

#include "d5/training/training_frame.hpp"

namespace d5 {

class AdversarialTrainer final : public TrainingFrame {
 public:
  // settings.network is the generator, of noise; the discriminator gives one logit for an image. UsageError where they
  // do not fit each other, or the data.
  AdversarialTrainer(TrainingSettings, NetworkOfSize discriminator, Backend&);

  ParameterSet& discriminator_parameters() { return judged_; }  // parameters() are the generator's
  size_t bytes() const override;
  Facts kernels() const override { return generator_.executable->kernels(); }

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
  StepTimes take_step(Loader&) override;
  void test_batch(const Batch&, Index number) override;
  NamedTensors networks_to_save() override;
  void restore_networks(const Checkpoint&) override;

  Generator compile_generator(Index samples, Mode);
  std::unique_ptr<BoundNetwork> compile_judge(Index samples, Mode, bool input_gradients);
  void choose_image();
  Tensor generate(Generator&, const std::string& stream, Index number) const;
  Tensor real_images(const Batch&) const;
  double judge(BoundNetwork&, const Tensor& images, double target, Position) const;  // the loss
  void learn_from_critic(const Tensor& images, Position);                            // the generator's gradients

  NetworkOfSize discriminator_;
  ParameterSet judged_;
  Generator generator_;
  std::string judged_image_;              // the discriminator's input
  std::unique_ptr<BoundNetwork> judge_;   // learns
  std::unique_ptr<BoundNetwork> critic_;  // the same parameters; its input gradient is wanted
  std::map<Index, Tester> testers_;       // by samples
  std::unique_ptr<Optimizer> judge_optimizer_;
  size_t image_ = 0;  // the field of the data
};

}  // namespace d5
