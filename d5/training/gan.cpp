// SPDX-License-Identifier: Apache-2.0
#include "d5/training/gan.hpp"

#include <algorithm>
#include <cmath>

#include "d5/core/rng.hpp"
#include "d5/measure/clock.hpp"
#include "d5/networks/form.hpp"
#include "d5/networks/loss.hpp"
#include "d5/training/optimizer.hpp"
#include "d5/training/saved_training.hpp"

namespace d5 {
namespace {

using Role = Executable::Role;

const GraphInput& data_input(const Graph& graph) {
  const GraphInput* found = nullptr;
  for (const GraphInput& input : graph.inputs) {
    if (input.parameter || input.name == target_name) continue;
    if (found)
      throw UsageError("[gan] {} has inputs '{}' and '{}'; one is wanted", graph.name, found->name, input.name);
    found = &input;
  }
  if (!found) throw UsageError("[gan] {} has no input", graph.name);
  return *found;
}

Index values_of(const TensorSpec& spec) { return spec.elements() / std::max<Index>(1, spec.shape[0]); }

}  // namespace

AdversarialTrainer::AdversarialTrainer(TrainingSettings settings, NetworkOfSize discriminator, Backend& backend)
    : TrainingFrame(std::move(settings), backend),
      discriminator_(std::move(discriminator)),
      judged_(settings_.compute, backend.memory(settings_.compile.device)) {
  TrainingSettings& s = settings_;
  if (s.accumulate != 1 || s.ranks != 1 || s.scheme != "single")
    throw UsageError("[gan] accumulate is {}, ranks {}; both networks learn from whole batches of one process",
                     s.accumulate, s.ranks);
  s.task = "gan";
  generator_ = compile_generator(s.batch, Mode::training);
  judge_ = compile_judge(s.batch, Mode::training, false);
  critic_ = compile_judge(s.batch, Mode::training, true);
  choose_image();
  initialise(s.network, set_, s.seed);
  initialise(discriminator_, judged_, Rng(s.seed, stream_of("discriminator")).bits(0));
  make_parts(generator_.image_spec, true);
  judge_optimizer_ = make_optimizer(s.optimizer, judged_);
  if (optimizer_->evaluates())
    throw UsageError("[gan] {} evaluates a batch several times: two networks cannot both do that", s.optimizer.name);
}

AdversarialTrainer::Generator AdversarialTrainer::compile_generator(Index samples, Mode mode) {
  const Graph graph = settings_.network(samples, mode);
  const CompileOptions options = options_for(graph, mode);
  const GraphInput& noise = data_input(graph);
  Generator result{.noise = noise.name, .image = own_output(graph), .noise_spec = noise.spec};
  result.image_spec = infer_specs(graph).at(result.image);
  if (mode == Mode::training)
    for (const auto& [parameter, output] : running_updates(graph)) result.statistics.emplace_back(parameter, output);
  result.executable = backend_.compile(graph, set_, options);
  return result;
}

std::unique_ptr<BoundNetwork> AdversarialTrainer::compile_judge(Index samples, Mode mode, bool input_gradients) {
  const Graph bare = discriminator_(samples, mode), graph = with_loss(bare, "binary-cross-entropy");
  const CompileOptions options = options_for(graph, mode, input_gradients);
  const GraphInput& image = data_input(graph);
  judged_image_ = image.name;
  if (values_of(image.spec) != values_of(generator_.image_spec))
    throw UsageError("[gan] the generator's '{}' is {}; '{}' of {} takes {}", generator_.image,
                     to_string(generator_.image_spec), image.name, graph.name, to_string(image.spec));
  const std::string logit = own_output(bare);
  if (values_of(infer_specs(bare).at(logit)) != 1)
    throw UsageError("[gan] '{}' of {} is {}; one logit a sample is wanted", logit, bare.name,
                     to_string(infer_specs(bare).at(logit)));
  return std::make_unique<BoundNetwork>(graph, logit, backend_, judged_, options);
}

// The first field with as many values as an image has.
void AdversarialTrainer::choose_image() {
  const auto fits = [&](const Field& field) {
    return field.shape && field.shape->elements() == values_of(generator_.image_spec);
  };
  for (const auto& data : {settings_.train, settings_.test})
    if (std::ranges::none_of(data->fields(), fits))
      throw UsageError("[gan] no field of the data has the {} values of an image, {}", values_of(generator_.image_spec),
                       to_string(generator_.image_spec));
  const auto& fields = settings_.train->fields();
  image_ = static_cast<size_t>(std::ranges::find_if(fields, fits) - fields.begin());
}

// Images from the noise of this number; f32, on the host.
Tensor AdversarialTrainer::generate(Generator& generator, const std::string& stream, Index number) const {
  const Tensor noise(generator.noise_spec.dtype, generator.noise_spec.shape);
  fill_normal(noise, Rng(settings_.seed, stream_of(fmt::format("{} {}", stream, number))), 0, 1);
  generator.executable->write(Role::value, generator.noise, noise);
  generator.executable->forward({});
  return as_f32(generator.executable->read(Role::value, generator.image));
}

Tensor AdversarialTrainer::real_images(const Batch& batch) const {
  std::vector<Index> sizes = generator_.image_spec.shape.sizes();
  sizes[0] = batch.size();
  return as_f32(batch.fields[image_]).reshaped(Shape(sizes));
}

double AdversarialTrainer::judge(BoundNetwork& network, const Tensor& images, double target, Position position) const {
  const Tensor targets(DType::f32, {images.shape()[0], 1});
  std::ranges::fill(targets.values<float>(), static_cast<float>(target));
  Batch batch;
  batch.fields = {images, targets};
  network.feed({.input = 0, .target = 1}, batch);
  network.forward(position);
  return network.loss();
}

StepTimes AdversarialTrainer::take_step(Loader& loader) {
  StepTimes times;
  const Moment now = moment();
  before(TrainingEvent::sampling);
  const double sampling = now_seconds();
  const Batch& batch = next(loader);
  const Tensor real = real_images(batch);
  times.input = now_seconds() - sampling;
  after(TrainingEvent::sampling);
  before(TrainingEvent::batch);
  for (Optimizer* optimizer : {optimizer_.get(), judge_optimizer_.get()}) {
    optimizer->new_input(now);
    optimizer->prepare();
  }
  set_.touch();
  judged_.touch();
  const double computing = now_seconds();
  const Position here = position(0, batch.size());
  const Tensor images = generate(generator_, "noise", step_);
  double judge_loss = judge(*judge_, real, 1, here);
  judge_->backward(false, nullptr);
  judge_->keep_statistics();
  judge_loss += judge(*judge_, images, 0, here);
  judge_->backward(true, nullptr);
  judge_->keep_statistics();
  const double judging = now_seconds();
  judge_optimizer_->update(judged_.all());
  judged_.touch();
  const double updated = now_seconds();
  learn_from_critic(images, here);
  times.operators = judging - computing + now_seconds() - updated;
  if (!std::isfinite(loss_) || !std::isfinite(judge_loss)) {
    after(TrainingEvent::batch);
    diverge(fmt::format("{} of the generator and {} of the discriminator", loss_, judge_loss));
    return times;
  }
  train_->add(loss_, images, real, batch.samples);
  result_.samples += batch.size();
  ++batch_;
  after(TrainingEvent::batch);
  before(TrainingEvent::optimizer_step);
  const double updating = now_seconds();
  optimizer_->update(set_.all());
  set_.touch();
  times.optimizer = updated - judging + now_seconds() - updating;
  after(TrainingEvent::optimizer_step);
  return times;
}

// How the discriminator's answer to these images changes with them goes back into the generator.
void AdversarialTrainer::learn_from_critic(const Tensor& images, Position position) {
  loss_ = judge(*critic_, images, 1, position);
  critic_->backward(false, nullptr);
  const Tensor gradient = critic_->executable().read(Role::gradient, judged_image_);
  const TensorSpec& spec = generator_.image_spec;
  const Tensor typed = gradient.dtype() == spec.dtype ? gradient : gradient.cast(spec.dtype);
  generator_.executable->write(Role::gradient, generator_.image, typed.reshaped(spec.shape));
  generator_.executable->backward({});
  for (const auto& [parameter, output] : generator_.statistics) {
    const Tensor value = generator_.executable->read(Role::value, output);
    if (set_.has(parameter))
      set_parameter(set_, parameter, as_f32(value));
    else
      generator_.executable->write(Role::value, parameter, value);
  }
}

void AdversarialTrainer::test_batch(const Batch& batch, Index number) {
  Tester& tester = testers_[batch.size()];
  if (!tester.judge) {
    tester.generator = compile_generator(batch.size(), Mode::inference);
    tester.judge = compile_judge(batch.size(), Mode::inference, false);
  }
  before(TrainingEvent::batch);
  const Tensor images = generate(tester.generator, "noise of the test", number);
  test_->add(judge(*tester.judge, images, 1, {}), images, real_images(batch), batch.samples);
  after(TrainingEvent::batch);
}

NamedTensors AdversarialTrainer::networks_to_save() {
  NamedTensors all = saved_network("generator ", set_, optimizer_->state());
  std::ranges::move(saved_network("discriminator ", judged_, judge_optimizer_->state()), std::back_inserter(all));
  return all;
}

void AdversarialTrainer::restore_networks(const Checkpoint& saved) {
  restore_network(saved, "generator ", set_, *optimizer_);
  restore_network(saved, "discriminator ", judged_, *judge_optimizer_);
}

size_t AdversarialTrainer::bytes() const {
  size_t bytes = bytes_of(set_, *optimizer_) + bytes_of(judged_, *judge_optimizer_);
  bytes += generator_.executable->bytes() + judge_->executable().bytes() + critic_->executable().bytes();
  for (const auto& [samples, tester] : testers_)
    bytes += tester.generator.executable->bytes() + tester.judge->executable().bytes();
  return bytes;
}

}  // namespace d5
