// SPDX-License-Identifier: Apache-2.0
#include "d5/training/gan.hpp"

#include <algorithm>
#include <cmath>

#include "d5/core/rng.hpp"
#include "d5/measure/clock.hpp"
#include "d5/networks/form.hpp"
#include "d5/networks/initialise.hpp"
#include "d5/networks/loss.hpp"
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

std::string own_output(const Graph& graph) {
  const auto updates = running_updates(graph);
  for (const std::string& name : graph.outputs)
    if (std::ranges::none_of(updates, [&](const auto& pair) { return pair.second == name; })) return name;
  throw UsageError("[gan] {} has no output", graph.name);
}

Index values_of(const TensorSpec& spec) { return spec.elements() / std::max<Index>(1, spec.shape[0]); }

Tensor as_f32(const Tensor& tensor) { return tensor.dtype() == DType::f32 ? tensor : tensor.cast(DType::f32); }

}  // namespace

AdversarialTrainer::AdversarialTrainer(TrainingSettings settings, Network discriminator, Backend& backend)
    : settings_(std::move(settings)),
      discriminator_(std::move(discriminator)),
      backend_(backend),
      made_(settings_.compute, backend.memory(settings_.compile.device)),
      judged_(settings_.compute, backend.memory(settings_.compile.device)) {
  TrainingSettings& s = settings_;
  if (s.accumulate != 1 || s.ranks != 1 || s.scheme != "single")
    throw UsageError("[gan] accumulate is {}, ranks {}; both networks learn from whole batches of one process",
                     s.accumulate, s.ranks);
  batches_ = s.train->data().size() / s.batch;
  if (batches_ < 1)
    throw UsageError("[gan] a batch of {} is larger than the training set of {} samples", s.batch,
                     s.train->data().size());
  generator_ = compile_generator(s.batch, Mode::training);
  judge_ = compile_judge(s.batch, Mode::training, false);
  critic_ = compile_judge(s.batch, Mode::training, true);
  choose_image();
  initialise(s.network, made_, s.seed);
  initialise(discriminator_, judged_, Rng(s.seed, stream_of("discriminator")).bits(0));
  maker_ = make_optimizer(s.optimizer, made_);
  judge_optimizer_ = make_optimizer(s.optimizer, judged_);
  if (maker_->evaluates())
    throw UsageError("[gan] {} evaluates a batch several times: two networks cannot both do that", s.optimizer.name);
  schedule_ = make_schedule(s.schedule, {s.stop.epochs, batches_});
  const auto& task = registered<tasks>("gan");
  train_ = task.make(generator_.image_spec);
  test_ = task.make(generator_.image_spec);
  s.stop.larger_is_better = task.larger_is_better;
}

AdversarialTrainer::Generator AdversarialTrainer::compile_generator(Index samples, Mode mode) {
  CompileOptions options = settings_.compile;
  options.mode = mode;
  options.input_gradients = false;
  const Graph graph = settings_.network(samples, mode);
  if (const auto reason = backend_.why_not(graph, options)) throw CannotRun(*reason);
  const GraphInput& noise = data_input(graph);
  Generator result{.noise = noise.name, .image = own_output(graph), .noise_spec = noise.spec};
  result.image_spec = infer_specs(graph).at(result.image);
  if (mode == Mode::training)
    for (const auto& [parameter, output] : running_updates(graph)) result.statistics.emplace_back(parameter, output);
  result.executable = backend_.compile(graph, made_, options);
  return result;
}

std::unique_ptr<BoundNetwork> AdversarialTrainer::compile_judge(Index samples, Mode mode, bool input_gradients) {
  CompileOptions options = settings_.compile;
  options.mode = mode;
  options.input_gradients = input_gradients;
  const Graph bare = discriminator_(samples, mode), graph = with_loss(bare, "binary-cross-entropy");
  if (const auto reason = backend_.why_not(graph, options)) throw CannotRun(*reason);
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

void AdversarialTrainer::initialise(const Network& network, ParameterSet& set, uint64_t seed) const {
  for (const auto& [name, value] : initial_values(network(settings_.batch, Mode::training), seed))
    if (set.has(name)) set_parameter(set, name, as_f32(value));
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

double AdversarialTrainer::elapsed() const { return seconds_before_ + now_seconds() - began_; }

TrainingView AdversarialTrainer::view() const {
  return {.epoch = epoch_,
          .batch = batch_,
          .step = step_,
          .epochs = settings_.stop.epochs,
          .batches = batches_,
          .testing = testing_,
          .seconds = elapsed(),
          .loss = loss_,
          .learning_rate = maker_->learning_rate(),
          .train = train_.get(),
          .test = test_.get(),
          .parameters = const_cast<ParameterSet*>(&made_)};
}

void AdversarialTrainer::before(TrainingEvent event) {
  const TrainingView now = view();
  for (TrainingEvents* listener : settings_.events) listener->before(event, now);
}

void AdversarialTrainer::after(TrainingEvent event) {
  const TrainingView now = view();
  for (TrainingEvents* listener : settings_.events) listener->after(event, now);
}

TrainingResult AdversarialTrainer::run() {
  const bool saves = !settings_.checkpoint.file.empty();
  if (settings_.checkpoint.resume && saves) load();
  began_ = now_seconds();
  before(TrainingEvent::training);
  if (!result_.stopped.empty()) test();  // it was finished when it was saved
  while (result_.stopped.empty()) {
    before(TrainingEvent::epoch);
    const bool whole = run_epoch();
    if (!whole && !diverged_ && saves) save();  // without the test of half an epoch
    if (!diverged_) {
      test();
      if (whole) qualities_.push_back(test_->value());
      end_epoch();
    }
    after(TrainingEvent::epoch);
    if (whole && result_.stopped.empty()) result_.stopped = settings_.stop.after_epoch(qualities_);
    if (whole && saves) save();
  }
  after(TrainingEvent::training);
  result_.seconds = elapsed();
  result_.steps = step_;
  return result_;
}

// False: the training ends within it.
bool AdversarialTrainer::run_epoch() {
  if (batch_ == 0) train_->reset();
  before(TrainingEvent::training_set);
  Loader loader(settings_.train, make_sampler(settings_.sampler, settings_.train->data().size(), settings_.seed),
                {.batch = settings_.batch,
                 .drop_last = true,
                 .threads = settings_.loader_threads,
                 .first_epoch = epoch_,
                 .first_batch = batch_});
  while (batch_ < batches_) {
    take_step(loader);
    if (diverged_) return false;
    if (batch_ == batches_) break;
    if (result_.stopped = interrupted(); !result_.stopped.empty()) {
      after(TrainingEvent::training_set);
      return false;
    }
    const Index every = settings_.checkpoint.every;
    if (every > 0 && !settings_.checkpoint.file.empty() && step_ % every == 0) save();
  }
  after(TrainingEvent::training_set);
  ++epoch_;
  batch_ = 0;
  if (settings_.stop.steps > 0 && step_ >= settings_.stop.steps) result_.stopped = "steps";
  return true;
}

void AdversarialTrainer::save() {
  NamedTensors tensors;
  add_network(tensors, "generator ", made_, *maker_);
  add_network(tensors, "discriminator ", judged_, *judge_optimizer_);
  tensors.emplace_back("quality of the epoch", as_section(train_->sums()));
  const SavedPosition at{epoch_, batch_, step_, elapsed(), qualities_, 0, settings_.batch};
  save_training(settings_, at, made_.layout_hash(), std::move(tensors), result_);
}

void AdversarialTrainer::load() {
  SavedPosition at{.qualities = {}, .micro_batch = settings_.batch};
  const bool there = load_training(settings_, at, result_, [&](const Checkpoint& saved) {
    restore_network(saved, "generator ", made_, *maker_);
    restore_network(saved, "discriminator ", judged_, *judge_optimizer_);
    as_section(train_->sums()).copy_from(saved.at("quality of the epoch"));
  });
  if (!there) return;
  epoch_ = at.epoch;
  batch_ = at.batch;
  step_ = at.step;
  seconds_before_ = at.seconds;
  qualities_ = at.qualities;
}

std::string AdversarialTrainer::interrupted() const {
  if (settings_.stop.steps > 0 && step_ >= settings_.stop.steps) return "steps";
  if (settings_.stop.seconds > 0 && elapsed() >= settings_.stop.seconds) return "time";
  for (TrainingEvents* listener : settings_.events)
    if (std::string why = listener->stop(); !why.empty()) return why;
  return {};
}

void AdversarialTrainer::take_step(Loader& loader) {
  const double begin = now_seconds();
  Moment moment{.step = step_ + 1,
                .epoch = epoch_,
                .epoch_progress = static_cast<double>(batch_) / static_cast<double>(batches_),
                .batch = batch_};
  moment.rate_factor = schedule_->factor(moment);
  before(TrainingEvent::sampling);
  const Batch* batch = loader.next();
  if (!batch) throw Error("[gan] the loader ended in epoch {} at batch {} of {}", epoch_, batch_, batches_);
  const Tensor real = real_images(*batch);
  const double sampled = now_seconds();
  after(TrainingEvent::sampling);
  before(TrainingEvent::batch);
  for (Optimizer* optimizer : {maker_.get(), judge_optimizer_.get()}) {
    optimizer->new_input(moment);
    optimizer->prepare();
  }
  made_.touch();
  judged_.touch();
  const double computing = now_seconds();
  const Position position{Rng(settings_.seed, stream_of("dropout")).bits(static_cast<uint64_t>(step_)), 0};
  const Tensor images = generate(generator_, "noise", step_);
  judge_loss_ = judge(*judge_, real, 1, position);
  judge_->backward(false, nullptr);
  judge_->keep_statistics();
  judge_loss_ += judge(*judge_, images, 0, position);
  judge_->backward(true, nullptr);
  judge_->keep_statistics();
  const double judging = now_seconds();
  judge_optimizer_->update(judged_.all());
  judged_.touch();
  const double updated = now_seconds();
  update_generator(images, position);
  const double computed = now_seconds();
  diverged_ = !std::isfinite(loss_) || !std::isfinite(judge_loss_);
  if (diverged_) {
    result_.stopped = "diverged";
    result_.reason =
        fmt::format("[gan] the loss is {} of the generator and {} of the discriminator at epoch {}, batch {} (step {})",
                    loss_, judge_loss_, epoch_ + 1, batch_ + 1, step_ + 1);
    return;
  }
  train_->add(loss_, images, real, batch->samples);
  result_.samples += batch->size();
  ++batch_;
  after(TrainingEvent::batch);
  before(TrainingEvent::optimizer_step);
  const double updating = now_seconds();
  maker_->update(made_.all());
  made_.touch();
  const double done = now_seconds();
  after(TrainingEvent::optimizer_step);
  ++step_;
  const double seconds = now_seconds() - begin;
  result_.times.whole += seconds;
  result_.times.input += sampled - begin;
  result_.times.operators += (judging - computing) + (computed - updated);
  result_.times.optimizer += (updated - judging) + (done - updating);
  blocks_.add(seconds, result_.step_seconds, result_.step_block);
}

// How the discriminator's answer to these images changes with them goes back into the generator.
void AdversarialTrainer::update_generator(const Tensor& images, Position position) {
  loss_ = judge(*critic_, images, 1, position);
  critic_->backward(false, nullptr);
  const Tensor gradient = critic_->executable().read(Role::gradient, judged_image_);
  const TensorSpec& spec = generator_.image_spec;
  const Tensor typed = gradient.dtype() == spec.dtype ? gradient : gradient.cast(spec.dtype);
  generator_.executable->write(Role::gradient, generator_.image, typed.reshaped(spec.shape));
  generator_.executable->backward({});
  for (const auto& [parameter, output] : generator_.statistics) {
    const Tensor value = generator_.executable->read(Role::value, output);
    if (made_.has(parameter))
      set_parameter(made_, parameter, as_f32(value));
    else
      generator_.executable->write(Role::value, parameter, value);
  }
}

void AdversarialTrainer::test() {
  const double begin = now_seconds();
  testing_ = true;
  test_->reset();
  before(TrainingEvent::test_set);
  const Index samples = settings_.test->data().size();
  Loader loader(settings_.test, make_sampler("ordered", samples, settings_.seed),
                {.batch = std::min(settings_.batch, samples), .threads = settings_.loader_threads, .epochs = 1});
  for (Index number = 0; const Batch* batch = loader.next(); ++number) {
    Tester& tester = testers_[batch->size()];
    if (!tester.judge) {
      tester.generator = compile_generator(batch->size(), Mode::inference);
      tester.judge = compile_judge(batch->size(), Mode::inference, false);
    }
    before(TrainingEvent::batch);
    const Tensor images = generate(tester.generator, "noise of the test", number);
    test_->add(judge(*tester.judge, images, 1, {}), images, real_images(*batch), batch->samples);
    after(TrainingEvent::batch);
  }
  after(TrainingEvent::test_set);
  testing_ = false;
  result_.test_seconds += now_seconds() - begin;
}

void AdversarialTrainer::end_epoch() {
  result_.curve.push_back({epoch_, step_, elapsed(), train_->loss(), train_->value(), test_->loss(), test_->value(),
                           maker_->learning_rate()});
  if (result_.seconds_to_target || !settings_.stop.reached(test_->value())) return;
  result_.seconds_to_target = elapsed();
  result_.epochs_to_target = static_cast<double>(epoch_) + static_cast<double>(batch_) / static_cast<double>(batches_);
}

size_t AdversarialTrainer::bytes() const {
  size_t bytes = static_cast<size_t>(made_.elements() + judged_.elements()) * sizeof(float) * 2;
  bytes += generator_.executable->bytes() + judge_->executable().bytes() + critic_->executable().bytes();
  for (const auto& [samples, tester] : testers_)
    bytes += tester.generator.executable->bytes() + tester.judge->executable().bytes();
  for (Optimizer* optimizer : {maker_.get(), judge_optimizer_.get()})
    for (const Optimizer::State& state : optimizer->state()) bytes += state.values.bytes();
  return bytes;
}

}  // namespace d5
