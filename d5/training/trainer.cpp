// SPDX-License-Identifier: Apache-2.0
#include "d5/training/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "d5/core/rng.hpp"
#include "d5/measure/clock.hpp"
#include "d5/networks/form.hpp"
#include "d5/networks/initialise.hpp"
#include "d5/networks/loss.hpp"
#include "d5/training/trainer_work.hpp"

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

std::string scores_of(const Graph& graph) {
  const auto updates = running_updates(graph);
  for (const std::string& name : graph.outputs)
    if (std::ranges::none_of(updates, [&](const auto& pair) { return pair.second == name; })) return name;
  throw UsageError("[train] {} has no output to learn from", graph.name);
}

}  // namespace

// Gradients go to the scheme as they become ready.
class Trainer::Work::Passing final : public Observer {
 public:
  explicit Passing(Scheme& scheme) : scheme_(scheme) {}
  void gradient_ready(const Gradient& gradient) override { scheme_.gradient_ready(gradient); }

 private:
  Scheme& scheme_;
};

// The batch that was fed last, as often as an optimizer asks; its statistics count once.
class Trainer::Work::Retried final : public Evaluate {
 public:
  Retried(BoundNetwork& network, ParameterSet& set, Position position)
      : network_(network), set_(set), position_(position) {}
  double loss_and_gradients() override {
    const double value = forward();
    network_.backward(false, nullptr);
    return value;
  }
  double loss() override { return forward(); }
  ParameterSet& parameters() override { return set_; }

 private:
  double forward() {
    set_.touch();
    network_.forward(position_);
    if (!std::exchange(seen_, true)) network_.keep_statistics();
    return network_.loss();
  }
  BoundNetwork& network_;
  ParameterSet& set_;
  Position position_;
  bool seen_ = false;
};

Trainer::Work::Work(TrainingSettings settings, Backend& backend)
    : settings_(std::move(settings)),
      backend_(backend),
      set_(settings_.compute, backend.memory(settings_.compile.device)) {
  TrainingSettings& s = settings_;
  if (s.accumulate < 1 || s.batch < 1 || s.batch % s.accumulate != 0)
    throw UsageError("[train] a batch of {} is not divided evenly into {} micro-batches", s.batch, s.accumulate);
  micro_ = s.batch / s.accumulate;
  const auto sampler = training_sampler();
  if (s.batch > sampler->size())
    throw UsageError("[train] a batch of {} is larger than the training set of {} samples{}", s.batch, sampler->size(),
                     s.ranks > 1 ? " of a rank" : "");
  if (s.test->data().size() < 1) throw UsageError("[train] the test set has no samples");

  const Graph bare = s.network(micro_, Mode::training);
  scores_ = scores_of(bare);
  const TensorSpec scores = infer_specs(bare).at(scores_);
  const Graph graph = with_loss(bare, s.loss);
  feed_ = choose_feed(s.train->fields(), graph, scores);
  choose_feed(s.test->fields(), graph, scores);
  const auto& task = registered<tasks>(s.task);
  train_ = task.make(scores);
  test_ = task.make(scores);
  s.stop.larger_is_better = task.larger_is_better;

  learner(micro_);
  if (const Index over = make_sampler(s.sampler, s.train->data().size(), s.seed)->size() - sampler->size() * s.ranks)
    result_.warnings.push_back(
        fmt::format("the last {} samples of an epoch's order are left out: they are not divided evenly among {} ranks",
                    over, s.ranks));
  last_ = sampler->size() % micro_;
  std::string left_out;
  if (last_ > 0) try {
      learner(last_);
    } catch (const Error& error) {
      left_out = error.what();
      learners_.erase(last_);
    }
  drops_last_ = !left_out.empty();
  const bool drop_last = last_ == 0 || drops_last_;
  if (last_ > 0 && drop_last)
    result_.warnings.push_back(
        fmt::format("the last {} samples of an epoch's order are left out: {}", last_, left_out));
  if (drop_last) last_ = micro_;
  initialise();  // before the optimizer: its state may begin at the weights
  batches_ = drop_last ? sampler->size() / micro_ : (sampler->size() + micro_ - 1) / micro_;
  optimizer_ = make_optimizer(s.optimizer, set_);
  if (optimizer_->evaluates() && (s.scheme != "single" || s.accumulate > 1))
    throw UsageError("[train] {} evaluates a batch several times: it needs scheme single and accumulate 1",
                     s.optimizer.name);
  schedule_ = make_schedule(s.schedule, {s.stop.epochs, (batches_ + s.accumulate - 1) / s.accumulate});
  scheme_ = make_scheme(s.scheme, s.scheme_values, s.communicator);
}

std::shared_ptr<const Sampler> Trainer::Work::training_sampler() const {
  const TrainingSettings& s = settings_;
  std::shared_ptr<const Sampler> all = make_sampler(s.sampler, s.train->data().size(), s.seed);
  if (s.ranks == 1 && first_ == 0) return all;
  const Index each = (all->size() - first_) / s.ranks;
  return std::make_shared<RankSampler>(std::move(all), first_, s.rank, s.ranks, s.batch, each);
}

Index Trainer::Work::batches_of_epoch() const {
  if (first_ == 0) return batches_;
  const Index size = training_sampler()->size();
  return drops_last_ ? size / micro_ : (size + micro_ - 1) / micro_;
}

Index Trainer::Work::last_of_epoch() const {
  return first_ == 0 ? last_ : std::min(micro_, training_sampler()->size() - (batches_of_epoch() - 1) * micro_);
}

std::unique_ptr<BoundNetwork> Trainer::Work::compile(Index samples, Mode mode) {
  CompileOptions options = settings_.compile;
  options.mode = mode;
  options.input_gradients = false;
  const Graph graph = with_loss(settings_.network(samples, mode), settings_.loss);
  if (const auto reason = backend_.why_not(graph, options)) throw CannotRun(*reason);
  // Gradients of micro-batches are added: a short one counts as much as it has samples.
  const double weight = settings_.accumulate > 1 ? static_cast<double>(samples) / static_cast<double>(micro_) : 1;
  return std::make_unique<BoundNetwork>(graph, scores_, backend_, set_, options, weight);
}

BoundNetwork& Trainer::Work::learner(Index samples) {
  auto& known = learners_[samples];
  if (!known) known = compile(samples, Mode::training);
  return *known;
}

BoundNetwork& Trainer::Work::tester(Index samples) {
  auto& known = testers_[samples];
  if (!known) known = compile(samples, Mode::inference);
  return *known;
}

void Trainer::Work::initialise() {
  for (const auto& [name, value] : initial_values(settings_.network(micro_, Mode::training), settings_.seed)) {
    if (set_.has(name)) set_parameter(set_, name, value.dtype() == DType::f32 ? value : value.cast(DType::f32));
  }
}

// Dropout draws other numbers for another seed, step and sample of the batch of all ranks, whatever happened before.
Position Trainer::Work::position(Index samples_before, Index step_samples) const {
  const Rng rng(settings_.seed, stream_of("dropout"));
  return {rng.bits(static_cast<uint64_t>(step_)),
          static_cast<uint64_t>(settings_.rank * step_samples + samples_before)};
}

double Trainer::Work::epoch_progress() const {
  if (first_ == 0) return static_cast<double>(batch_) / static_cast<double>(batches_);
  const Index size = make_sampler(settings_.sampler, settings_.train->data().size(), settings_.seed)->size();
  return static_cast<double>(first_ + batch_ * samples_of_micro_batch()) / static_cast<double>(size);
}

double Trainer::Work::elapsed() const { return seconds_before_ + now_seconds() - began_; }

TrainingView Trainer::Work::view() const {
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

void Trainer::Work::before(TrainingEvent event) {
  if (settings_.events.empty()) return;
  const TrainingView now = view();
  for (TrainingEvents* listener : settings_.events) listener->before(event, now);
}

void Trainer::Work::after(TrainingEvent event) {
  if (settings_.events.empty()) return;
  const TrainingView now = view();
  for (TrainingEvents* listener : settings_.events) listener->after(event, now);
}

TrainingResult Trainer::Work::run() {
  if (settings_.checkpoint.resume && !settings_.checkpoint.file.empty()) load();
  began_ = now_seconds();
  before(TrainingEvent::training);
  train();
  after(TrainingEvent::training);
  result_.seconds = elapsed();
  result_.steps = step_;
  return result_;
}

void Trainer::Work::train() try {
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
    const bool saves = !diverged_ && !settings_.checkpoint.file.empty();
    if (!whole && saves) save();  // without the test of half an epoch
    if (!diverged_) end_epoch(whole);
    after(TrainingEvent::epoch);
    if (whole && result_.stopped.empty()) result_.stopped = settings_.stop.after_epoch(qualities_);
    if (whole && result_.stopped.empty() && settings_.ranks > 1) result_.stopped = interrupted(true);
    if (whole && saves) save();
  }
  scheme_->end_training(set_);
  set_.touch();
  result_.scheme = scheme_->measured();
} catch (...) {
  scheme_->abandon();
  throw;
}

bool Trainer::Work::run_epoch() {
  if (batch_ == 0) train_->reset();
  before(TrainingEvent::training_set);
  const Index batches = batches_of_epoch();
  Loader loader(settings_.train, training_sampler(),
                {.batch = micro_,
                 .drop_last = batches * micro_ <= training_sampler()->size(),
                 .threads = settings_.loader_threads,
                 .first_epoch = epoch_,
                 .first_batch = batch_});
  while (batch_ < batches) {
    take_step(loader);
    if (diverged_) return false;
    if (batch_ == batches) break;
    if (result_.stopped = interrupted(false); !result_.stopped.empty()) {
      after(TrainingEvent::training_set);
      return false;
    }
    const Index every = settings_.checkpoint.every;
    if (every > 0 && !settings_.checkpoint.file.empty() && step_ % every == 0) save();
  }
  after(TrainingEvent::training_set);
  ++epoch_;
  batch_ = first_ = 0;
  if (settings_.stop.steps > 0 && step_ >= settings_.stop.steps) result_.stopped = "steps";
  return true;
}

std::string Trainer::Work::interrupted(bool between_epochs) {
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

void Trainer::Work::take_step(Loader& loader) {
  const double begin = now_seconds();
  step_input_ = step_operators_ = 0;
  const Index batches = batches_of_epoch();
  const Index micros = std::min(settings_.accumulate, batches - batch_);
  const Index samples = micros * micro_ - (batch_ + micros == batches ? micro_ - last_of_epoch() : 0);
  // In whole micro-batches; with one a step the loss is the mean over what there is.
  const double weights = settings_.accumulate > 1 ? static_cast<double>(samples) / static_cast<double>(micro_) : 1;
  Moment moment{.step = step_ + 1,
                .epoch = epoch_,
                .epoch_progress = epoch_progress(),
                .batch = batch_ / settings_.accumulate,
                .gradient_factor = 1 / weights};
  moment.rate_factor = schedule_->factor(moment);
  Step step(set_, *optimizer_, moment);
  double optimizing = 0;
  for (Index micro = 0; micro < micros && !diverged_; ++micro) {
    before(TrainingEvent::sampling);
    const double sampling = now_seconds();
    const Batch* batch = loader.next();
    if (!batch) throw Error("[train] the loader ended in epoch {} at batch {} of {}", epoch_, batch_, batches);
    BoundNetwork& network = learner(batch->size());
    network.feed(feed_, *batch);
    step_input_ += now_seconds() - sampling;
    after(TrainingEvent::sampling);
    train_->check_target(network.target(), batch->samples);
    before(TrainingEvent::batch);
    if (micro == 0) {
      const double preparing = now_seconds();
      optimizer_->new_input(moment);
      if (!optimizer_->evaluates()) {
        optimizer_->prepare();
        scheme_->begin_step(step);
      }
      optimizing += now_seconds() - preparing;
    }
    const double computing = now_seconds();
    if (optimizer_->evaluates()) {  // its own arithmetic between the evaluations counts as theirs
      Retried retried(network, set_, position(0, batch->size()));
      loss_ = optimizer_->step(retried);
      set_.touch();
    } else {
      before(TrainingEvent::forward);
      network.forward(position(micro * micro_, samples));
      // On a device the host runs ahead, and waits once a step: for the loss, when all is under way.
      const bool waits = set_.masters({0, 0}).memory().is_host() || scheme_->overlaps();
      if (waits) loss_ = network.loss();
      after(TrainingEvent::forward);
      Passing passing(*scheme_);
      before(TrainingEvent::backward);
      if (!waits || std::isfinite(loss_))
        network.backward(micro > 0, scheme_->overlaps() && micro + 1 == micros ? &passing : nullptr);
      after(TrainingEvent::backward);
      network.keep_statistics();
      if (!waits) loss_ = network.loss();
    }
    step_operators_ += now_seconds() - computing;
    diverged_ = !std::isfinite(loss_);
    if (!diverged_) see(network, *batch);
    if (!diverged_) ++batch_;
    after(TrainingEvent::batch);
  }
  if (diverged_) {
    result_.stopped = "diverged";
    result_.reason =
        fmt::format("[train] the loss is {} at epoch {}, batch {} (step {})", loss_, epoch_ + 1, batch_ + 1, step_ + 1);
    // The other ranks wait for this one: all of them end with its message.
    if (settings_.ranks > 1) throw Diverged("{} on rank {}", result_.reason, settings_.rank);
    return;
  }
  if (!optimizer_->evaluates()) {
    before(TrainingEvent::optimizer_step);
    const double updating = now_seconds();
    scheme_->finish_step(step);
    set_.touch();
    optimizing += now_seconds() - updating;
    after(TrainingEvent::optimizer_step);
  }
  ++step_;
  const double seconds = now_seconds() - begin;
  result_.times.whole += seconds;
  result_.times.input += step_input_;
  result_.times.operators += step_operators_;
  result_.times.optimizer += optimizing;
  blocks_.add(seconds, result_.step_seconds, result_.step_block);
}

void Trainer::Work::see(BoundNetwork& network, const Batch& batch) {
  train_->add(loss_, network.scores(), network.target(), batch.samples);
  result_.samples += batch.size() * settings_.ranks;
}

void Trainer::Work::test_on(std::shared_ptr<const Sampler> order) {
  Loader loader(settings_.test, order,
                {.batch = std::min(micro_, order->size()), .threads = settings_.loader_threads, .epochs = 1});
  while (const Batch* batch = loader.next()) {
    BoundNetwork& network = tester(batch->size());
    network.feed(feed_, *batch);
    test_->check_target(network.target(), batch->samples);
    before(TrainingEvent::batch);
    network.forward({});
    test_->add(network.loss(), network.scores(), network.target(), batch->samples);
    after(TrainingEvent::batch);
  }
}

void Trainer::Work::test() {
  const double begin = now_seconds();
  testing_ = true;
  test_->reset();
  before(TrainingEvent::test_set);
  scheme_->begin_test(set_);
  set_.touch();
  std::shared_ptr<const Sampler> order = make_sampler("ordered", settings_.test->data().size(), settings_.seed);
  if (settings_.communicator) order = partitioned(order, settings_.rank, settings_.ranks);  // each its part
  if (order->size() > 0) test_on(order);
  scheme_->sum_over_ranks(test_->sums());
  scheme_->end_test(set_);
  set_.touch();
  after(TrainingEvent::test_set);
  testing_ = false;
  result_.test_seconds += now_seconds() - begin;
}

void Trainer::Work::end_epoch(bool whole) {
  scheme_->sum_over_ranks(train_->sums());
  test();
  if (whole) qualities_.push_back(test_->value());
  result_.curve.push_back({epoch_, step_, elapsed(), train_->loss(), train_->value(), test_->loss(), test_->value(),
                           optimizer_->learning_rate()});
  if (!result_.seconds_to_target && settings_.stop.reached(test_->value())) {
    result_.seconds_to_target = elapsed();
    result_.epochs_to_target = static_cast<double>(epoch_) + epoch_progress();
  }
}

Trainer::Trainer(TrainingSettings settings, Backend& backend)
    : work_(std::make_unique<Work>(std::move(settings), backend)) {}
Trainer::~Trainer() = default;

TrainingResult Trainer::run() { return work_->run(); }
ParameterSet& Trainer::parameters() { return work_->set_; }
Evaluation& Trainer::train_quality() { return *work_->train_; }
Evaluation& Trainer::test_quality() { return *work_->test_; }
Index Trainer::batches() const { return work_->batches_; }

size_t Trainer::bytes() const {
  const bool on_host = work_->set_.masters({0, 0}).memory().is_host();
  size_t bytes = static_cast<size_t>(work_->set_.elements()) * sizeof(float) * 2, most = 0;
  for (const auto* all : {&work_->learners_, &work_->testers_})
    for (const auto& [samples, network] : *all) {
      const size_t own = network->executable().bytes();
      most = std::max(most, own);
      if (on_host) bytes += own;
    }
  if (!on_host) bytes += most;  // each of them tells of the whole process
  for (const Optimizer::State& state : work_->optimizer_->state()) bytes += state.values.bytes();
  return bytes;
}

Facts Trainer::kernels() const { return work_->learners_.at(work_->micro_)->executable().kernels(); }

Graph trained_graph(const TrainingSettings& settings, const ParameterSet& set) {
  Graph graph = settings.network(1, Mode::inference);
  for (const GraphInput& input : graph.inputs) {
    if (!input.parameter || !set.has(input.name)) continue;
    const Tensor value = canonical_part(set, set.masters(set.all()), set.at(input.name));
    graph.initial[input.name] = input.spec.dtype == DType::f32 ? value : value.cast(input.spec.dtype);
  }
  return graph;
}

}  // namespace d5
