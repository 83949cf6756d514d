// SPDX-License-Identifier: Apache-2.0
#include "d5/training/training_frame.hpp"

#include <algorithm>
#include <cmath>

#include "d5/core/rng.hpp"
#include "d5/measure/clock.hpp"
#include "d5/networks/form.hpp"
#include "d5/networks/initialise.hpp"
#include "d5/training/checkpoint_parts.hpp"
#include "d5/training/optimizer.hpp"
#include "d5/training/saved_training.hpp"

namespace d5 {
namespace {

// Rank r of n: of every batch of all ranks together, the r-th of n equal parts. So the batch of n ranks is the one that
// a single process takes, sample by sample in the same place, whatever n. Every rank takes as many steps; where the
// samples are not divided evenly, the last ones of an epoch's order (fewer than n) are left out. `first` of the order
// were taken before, by another number of ranks.
class RankSampler final : public Sampler {
 public:
  RankSampler(std::shared_ptr<const Sampler> all, Index first, Index rank, Index ranks, Index batch, Index size)
      : all_(std::move(all)), first_(first), rank_(rank), ranks_(ranks), batch_(batch), size_(size) {}
  Index size() const override { return size_; }
  void take(Index epoch, Index first, Index step, std::span<Index> samples) const override {
    while (!samples.empty()) {  // as far as this batch goes
      const Index begin = first / batch_ * batch_, length = std::min(batch_, size_ - begin);
      const Index place = first_ + begin * ranks_ + rank_ * length + (first - begin);
      const auto count = static_cast<size_t>((begin + length - first + step - 1) / step);
      const auto part = samples.first(std::min(count, samples.size()));
      all_->take(epoch, place, step, part);
      first += step * static_cast<Index>(part.size());
      samples = samples.subspan(part.size());
    }
  }

 private:
  std::shared_ptr<const Sampler> all_;
  Index first_, rank_, ranks_, batch_, size_;
};

}  // namespace

Tensor as_f32(const Tensor& tensor) { return tensor.dtype() == DType::f32 ? tensor : tensor.cast(DType::f32); }

size_t bytes_of(const ParameterSet& set, Optimizer& optimizer) {
  size_t bytes = static_cast<size_t>(set.elements()) * sizeof(float) * 2;
  for (const Optimizer::State& state : optimizer.state()) bytes += state.values.bytes();
  return bytes;
}

std::string own_output(const Graph& graph) {
  const auto updates = running_updates(graph);
  for (const std::string& name : graph.outputs)
    if (std::ranges::none_of(updates, [&](const auto& pair) { return pair.second == name; })) return name;
  throw UsageError("[train] {} has no output to learn from", graph.name);
}

TrainingFrame::TrainingFrame(TrainingSettings settings, Backend& backend)
    : settings_(std::move(settings)),
      backend_(backend),
      staging_(backend.staging_memory(settings_.compile.device)),
      set_(settings_.compute, backend.memory(settings_.compile.device)),
      order_(sampler_of(settings_.sampler, settings_.train->data(), settings_.seed)) {
  const TrainingSettings& s = settings_;
  if (s.accumulate < 1 || s.batch < 1 || s.batch % s.accumulate != 0)
    throw UsageError("[train] a batch of {} is not divided evenly into {} micro-batches", s.batch, s.accumulate);
  micro_ = s.batch / s.accumulate;
  if (s.batch > samples_of_epoch())
    throw UsageError("[train] a batch of {} is larger than the training set of {} samples{}", s.batch,
                     samples_of_epoch(), s.ranks > 1 ? " of a rank" : "");
  if (s.test->data().size() < 1) throw UsageError("[train] the test set has no samples");
  settings_.optimizer = for_batch(s.optimizer, s.batch * s.ranks);
}

TrainingFrame::~TrainingFrame() = default;

void TrainingFrame::make_parts(const TensorSpec& scores, bool drops_last) {
  TrainingSettings& s = settings_;
  const auto& task = registered<tasks>(s.task);
  train_ = task.make(scores);
  test_ = task.make(scores);
  s.stop.larger_is_better = task.larger_is_better;
  drops_last_ = drops_last;
  batches_ = whole_batches(samples_of_epoch());
  schedule_ = make_schedule(s.schedule, {s.stop.epochs, (batches_ + s.accumulate - 1) / s.accumulate, s.stop.steps});
  scheme_ = make_scheme(s.scheme, s.scheme_values, s.communicator);
  optimizer_ =
      scheme_->make_optimizer(set_, [&](ParameterSet::Range part) { return make_optimizer(s.optimizer, set_, part); });
  if (const auto why = optimizer_->why_no_checkpoint(); why && saves())
    throw UsageError("[checkpoint] {}: {}", s.optimizer.name, *why);
}

CompileOptions TrainingFrame::options_for(const Graph& graph, Mode mode, bool input_gradients) const {
  CompileOptions options = settings_.compile;
  options.mode = mode;
  options.input_gradients = input_gradients;
  if (const auto reason = backend_.why_not(graph, options)) throw CannotRun(*reason);
  return options;
}

void TrainingFrame::initialise(const NetworkOfSize& network, ParameterSet& set, uint64_t seed) const {
  for (const auto& [name, value] : initial_values(network(micro_, Mode::training), seed))
    if (set.has(name)) set_parameter(set, name, as_f32(value));
}

std::shared_ptr<const Sampler> TrainingFrame::training_sampler() const {
  const TrainingSettings& s = settings_;
  if (s.ranks == 1 && first_ == 0) return order_;
  const Index each = (order_->size() - first_) / s.ranks;
  return std::make_shared<RankSampler>(order_, first_, s.rank, s.ranks, s.batch, each);
}

Index TrainingFrame::batches_of_epoch() const { return first_ == 0 ? batches_ : whole_batches(samples_of_epoch()); }

Index TrainingFrame::samples_of_step(Index micros) const {
  const Index whole = micros * micro_;
  return batch_ + micros < batches_of_epoch() ? whole : std::min(whole, samples_of_epoch() - batch_ * micro_);
}

Moment TrainingFrame::moment() const {
  Moment moment{
      .step = step_ + 1, .epoch = epoch_, .epoch_progress = epoch_progress(), .batch = batch_ / settings_.accumulate};
  moment.rate_factor = schedule_->factor(moment);
  return moment;
}

const Batch& TrainingFrame::next(Loader& loader) const {
  const Batch* batch = loader.next();
  if (!batch) throw Error("[train] the loader ended in epoch {} at batch {} of {}", epoch_, batch_, batches_of_epoch());
  return *batch;
}

void TrainingFrame::diverge(const std::string& what) {
  result_.stopped = "diverged";
  result_.reason =
      fmt::format("[train] the loss is {} at epoch {}, batch {} (step {})", what, epoch_ + 1, batch_ + 1, step_ + 1);
  // The other ranks wait for this one: all of them end with its message.
  if (settings_.ranks > 1) throw Diverged("{} on rank {}", result_.reason, settings_.rank);
}

// Dropout draws other numbers for another seed, step and sample of the batch of all ranks, whatever happened before.
Position TrainingFrame::position(Index samples_before, Index step_samples) const {
  const Rng rng(settings_.seed, stream_of("dropout"));
  return {rng.bits(static_cast<uint64_t>(step_)),
          static_cast<uint64_t>(settings_.rank * step_samples + samples_before)};
}

double TrainingFrame::epoch_progress() const {
  if (first_ == 0) return static_cast<double>(batch_) / static_cast<double>(batches_);
  return static_cast<double>(first_ + batch_ * samples_of_micro_batch()) / static_cast<double>(order_->size());
}

double TrainingFrame::elapsed() const { return seconds_before_ + now_seconds() - began_; }

TrainingView TrainingFrame::view() const {
  return {.epoch = epoch_,
          .batch = batch_,
          .step = step_,
          .epochs = settings_.stop.epochs,
          .batches = batches_of_epoch(),
          .rank = settings_.rank,
          .testing = testing_,
          .seconds = elapsed(),
          .loss = loss_,
          .learning_rate = optimizer_->learning_rate(),
          .train = train_.get(),
          .test = test_.get(),
          .parameters = const_cast<ParameterSet*>(&set_)};
}

void TrainingFrame::before(TrainingEvent event) {
  if (settings_.events.empty()) return;
  const TrainingView now = view();
  for (TrainingEvents* listener : settings_.events) listener->before(event, now);
}

void TrainingFrame::after(TrainingEvent event) {
  if (settings_.events.empty()) return;
  const TrainingView now = view();
  for (TrainingEvents* listener : settings_.events) listener->after(event, now);
}

TrainingResult TrainingFrame::run() {
  if (settings_.checkpoint.resume && saves()) load();
  began_ = now_seconds();
  before(TrainingEvent::training);
  train();
  after(TrainingEvent::training);
  result_.seconds = elapsed();
  result_.steps = step_;
  if (result_.timed.steps == 0 && first_step_) {
    result_.times = *first_step_;
    result_.timed = {1, first_samples_};
  }
  return result_;
}

void TrainingFrame::train() try {
  scheme_->begin_training(
      {.parameters = set_,
       .optimizer = *optimizer_,
       .make_optimizer = [this](ParameterSet& set) { return make_optimizer(settings_.optimizer, set); },
       .seed = settings_.seed,
       .resumed = result_.resumed_at > 0});
  restore_scheme();
  if (!result_.stopped.empty()) test();  // it was finished when it was saved
  while (result_.stopped.empty()) {
    before(TrainingEvent::epoch);
    const bool whole = run_epoch();
    if (!whole && saves() && !diverged()) save();  // without the test of half an epoch
    if (!diverged()) end_epoch(whole);
    after(TrainingEvent::epoch);
    if (whole && result_.stopped.empty()) result_.stopped = settings_.stop.after_epoch(qualities_);
    if (whole && result_.stopped.empty()) result_.stopped = interrupted(true);
    if (whole && saves() && !diverged()) save();
  }
  scheme_->end_training(set_);
  set_.touch();
  note_waiting(true);
  result_.scheme = scheme_->measured();
} catch (...) {
  scheme_->abandon();
  throw;
}

bool TrainingFrame::run_epoch() {
  if (batch_ == 0) train_->reset();
  before(TrainingEvent::training_set);
  const Index batches = batches_of_epoch();
  Loader loader(settings_.train, training_sampler(),
                {.batch = micro_,
                 .drop_last = batches * micro_ <= samples_of_epoch(),
                 .threads = settings_.loader_threads,
                 .on_error = settings_.on_error == OnError::fail ? OnError::fail : OnError::replace,
                 .first_epoch = epoch_,
                 .first_batch = batch_,
                 .memory = &staging_});
  while (batch_ < batches) {
    run_step(loader);
    if (diverged()) {
      after(TrainingEvent::training_set);
      return false;
    }
    if (batch_ == batches) break;
    if (result_.stopped = interrupted(false); !result_.stopped.empty()) {
      epoch_counts_ = loader.counts();
      after(TrainingEvent::training_set);
      return false;
    }
    const Index every = settings_.checkpoint.every;
    if (every > 0 && saves() && step_ % every == 0) save();
  }
  epoch_counts_ = loader.counts();
  after(TrainingEvent::training_set);
  ++epoch_;
  batch_ = first_ = 0;
  if (settings_.stop.steps > 0 && step_ >= settings_.stop.steps) result_.stopped = "steps";
  return true;
}

void TrainingFrame::run_step(Loader& loader) {
  const double begin = now_seconds();
  const Index samples_before = result_.samples;
  StepTimes parts = take_step(loader);
  if (diverged()) return;
  ++step_;
  parts.whole = now_seconds() - begin;
  const Index samples = result_.samples - samples_before;
  if (!first_step_) {
    first_step_ = parts;
    first_samples_ = samples;
    note_waiting(false);
    return;
  }
  result_.times.whole += parts.whole;
  result_.times.input += parts.input;
  result_.times.operators += parts.operators;
  result_.times.optimizer += parts.optimizer;
  ++result_.timed.steps;
  result_.timed.samples += samples;
  blocks_.add(parts.whole, static_cast<double>(samples), result_.means);
}

// What the scheme waited since the last call, within what counts as the optimizer's.
void TrainingFrame::note_waiting(bool counts) {
  for (const auto& [name, seconds] : scheme_->measured()) {
    if (name != "waited_s") continue;
    const double since = seconds - std::exchange(waited_, seconds);
    result_.waiting_known = true;
    if (!counts) continue;
    result_.times.waiting += since;
    result_.times.optimizer -= since;
  }
}

std::string TrainingFrame::interrupted(bool between_epochs) {
  if (settings_.stop.steps > 0 && step_ >= settings_.stop.steps) return "steps";
  std::string why;
  if (settings_.stop.seconds > 0 && elapsed() >= settings_.stop.seconds) why = "time";
  for (TrainingEvents* listener : settings_.events)
    if (why.empty()) why = listener->stop();
  if (settings_.ranks == 1) return why;
  // Ranks stop together: by the first that has a reason, asked now and then. Those that wait for nobody are asked when
  // an epoch ends.
  constexpr Index steps_between = 16;
  if (!between_epochs && (!scheme_->in_step() || step_ % steps_between != 0)) return {};
  if (settings_.stop.seconds <= 0 && settings_.events.empty()) return {};
  double stops = why.empty() ? 0 : 1;
  scheme_->sum_over_ranks({&stops, 1});
  return why.empty() && stops > 0 ? "another rank" : why;
}

void TrainingFrame::test() {
  const double begin = now_seconds();
  testing_ = true;
  test_->reset();
  before(TrainingEvent::test_set);
  scheme_->begin_test(set_);
  set_.touch();
  LoaderCounts counts;
  std::shared_ptr<const Sampler> order = make_sampler("ordered", settings_.test->data().size(), settings_.seed);
  if (settings_.communicator) order = partitioned(order, settings_.rank, settings_.ranks);  // each its part
  if (order->size() > 0) {
    Loader loader(settings_.test, order,
                  {.batch = std::min(micro_, order->size()),
                   .threads = settings_.loader_threads,
                   .epochs = 1,
                   .on_error = settings_.on_error,
                   .memory = &staging_});
    for (Index number = 0; const Batch* batch = loader.next(); ++number) test_batch(*batch, number);
    counts = loader.counts();
  }
  result_.skipped.test = note_skipped(counts);
  scheme_->sum_over_ranks(test_->sums());
  if (test_->samples() == 0)
    throw Error("[train] none of the {} test samples could be read; the first: {}", settings_.test->data().size(),
                result_.skipped.first.empty() ? "another rank's" : result_.skipped.first.front());
  scheme_->end_test(set_);
  set_.touch();
  after(TrainingEvent::test_set);
  testing_ = false;
  result_.test_seconds += now_seconds() - begin;
}

Index TrainingFrame::note_skipped(const LoaderCounts& counts) {
  if (settings_.on_error == OnError::fail) return 0;
  for (const Skipped& one : counts.first_skipped)
    if (auto& first = result_.skipped.first; first.size() < 10 && std::ranges::find(first, one.reason) == first.end())
      first.push_back(one.reason);
  auto skipped = static_cast<double>(counts.skipped);
  scheme_->sum_over_ranks({&skipped, 1});
  return static_cast<Index>(skipped);
}

void TrainingFrame::end_epoch(bool whole) {
  scheme_->sum_over_ranks(train_->sums());
  result_.skipped.train += note_skipped(std::exchange(epoch_counts_, {}));
  test();
  if (whole) qualities_.push_back(test_->value());
  result_.curve.push_back({epoch_, step_, elapsed(), train_->loss(), train_->value(), test_->loss(), test_->value(),
                           optimizer_->learning_rate()});
  for (const auto& [what, value] : {std::pair<std::string, double>{"loss", test_->loss()},
                                    {registered<tasks>(settings_.task).quality, test_->value()}})
    if (!std::isfinite(value) && !diverged()) {
      result_.stopped = "diverged";
      result_.reason = fmt::format("[train] the test {} is {} after epoch {} (step {})", what, value,
                                   whole ? epoch_ : epoch_ + 1, step_);
    }
  if (!result_.seconds_to_target && settings_.stop.reached(test_->value())) {
    result_.seconds_to_target = elapsed();
    result_.epochs_to_target = static_cast<double>(epoch_) + epoch_progress();
  }
}

void TrainingFrame::save() {
  const double begin = now_seconds();
  before(TrainingEvent::checkpoint);
  note_waiting(true);
  NamedTensors tensors = networks_to_save();
  for (const auto& [name, value] : scheme_->state()) tensors.emplace_back("scheme " + name, value);
  tensors.emplace_back(summed_section, as_section(train_->sums()));
  result_.checkpoint_seconds += now_seconds() - begin;
  const SavedPosition at{epoch_, batch_, step_, elapsed(), qualities_, first_, samples_of_micro_batch()};
  save_training(settings_, at, set_.layout_hash(), std::move(tensors), result_,
                [this](std::span<double> numbers) { scheme_->sum_over_ranks(numbers); });
  after(TrainingEvent::checkpoint);
}

void TrainingFrame::load() {
  SavedPosition at{.qualities = {}, .micro_batch = samples_of_micro_batch()};
  const bool there = load_training(settings_, at, result_, [&](const Checkpoint& saved) {
    restore_networks(saved);
    for (const auto& section : saved.tensors)
      if (section.first.starts_with("scheme ")) scheme_state_.push_back(section);
    as_section(train_->sums()).copy_from(saved.at(summed_section));
  });
  if (settings_.ranks > 1) {  // a machine that does not see the folder would begin anew, alone
    double together = static_cast<double>(at.step);
    scheme_->sum_over_ranks({&together, 1});
    if (together != static_cast<double>(at.step * settings_.ranks))
      throw Error("[checkpoint] rank {} finds step {} in {} and others do not: machines need a folder in common",
                  settings_.rank, at.step, settings_.checkpoint.file);
  }
  if (!there) {
    if (settings_.rank == 0)
      if (const std::string why = why_not_resumed(settings_); !why.empty()) result_.warnings.push_back(why);
    return;
  }
  epoch_ = at.epoch;
  batch_ = at.batch;
  step_ = at.step;
  first_ = at.first;
  seconds_before_ = at.seconds;
  qualities_ = at.qualities;
}

// Its state lies where begin_training put it.
void TrainingFrame::restore_scheme() {
  if (result_.resumed_at == 0) return;
  const Checkpoint saved{{}, std::exchange(scheme_state_, {})};
  for (const auto& [name, value] : scheme_->state()) value.copy_from(saved.at("scheme " + name));
}

}  // namespace d5
