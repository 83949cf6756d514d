// SPDX-License-Identifier: Apache-2.0
#include "d5/training/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "d5/measure/clock.hpp"
#include "d5/networks/loss.hpp"
#include "d5/training/optimizer.hpp"
#include "d5/training/saved_training.hpp"

namespace d5 {
namespace {

// Gradients go to the scheme as they become ready.
class Passing final : public Observer {
 public:
  explicit Passing(Scheme& scheme) : scheme_(scheme) {}
  void gradient_ready(const Gradient& gradient) override { scheme_.gradient_ready(gradient); }

 private:
  Scheme& scheme_;
};

// The batch that was fed last, as often as an optimizer asks; its statistics count once.
class Retried final : public Evaluate {
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

// The loss says as what the targets are read, the task what it can judge.
void check_task(const TrainingSettings& s, const Graph& graph, const std::string& field) {
  const auto& wanted = registered<tasks>(s.task).target_type;
  const auto& target = *std::ranges::find(graph.inputs, std::string(target_name), &GraphInput::name);
  const auto holds = [](DType type) { return is_float(type) ? "numbers" : "classes"; };
  if (wanted && is_float(*wanted) != is_float(target.spec.dtype))
    throw UsageError("[train] task {} wants {} as targets; with loss {} the field '{}' of the data holds {}", s.task,
                     holds(*wanted), s.loss, field, holds(target.spec.dtype));
}

}  // namespace

Trainer::Trainer(TrainingSettings settings, Backend& backend) : TrainingFrame(std::move(settings), backend) {
  const TrainingSettings& s = settings_;
  const Graph bare = s.network(micro_, Mode::training);
  scores_ = own_output(bare);
  const TensorSpec scores = infer_specs(bare).at(scores_);
  const Graph graph = with_loss(bare, s.loss);
  feed_ = choose_feed(s.train->fields(), graph, scores);
  check_task(s, graph, s.train->fields()[feed_.target].name);
  choose_feed(s.test->fields(), graph, scores);
  learner(micro_);
  if (const Index over = order().size() - samples_of_epoch() * s.ranks)
    result_.warnings.push_back(
        fmt::format("the last {} samples of an epoch's order are left out: they are not divided evenly among {} ranks",
                    over, s.ranks));
  const bool drops_last = !learns_from_last();
  initialise(s.network, set_, s.seed);
  make_parts(scores, drops_last);
  if (optimizer_->evaluates() && (s.scheme != "single" || s.accumulate > 1))
    throw UsageError("[train] {} evaluates a batch several times: it needs scheme single and accumulate 1",
                     s.optimizer.name);
}

bool Trainer::learns_from_last() {
  const Index last = samples_of_epoch() % micro_;
  if (last == 0) return true;
  try {
    learner(last);
    return true;
  } catch (const Error& error) {
    learners_.erase(last);
    result_.warnings.push_back(
        fmt::format("the last {} samples of an epoch's order are left out: {}", last, error.what()));
    return false;
  }
}

std::unique_ptr<BoundNetwork> Trainer::compile(Index samples, Mode mode) {
  const Graph graph = with_loss(settings_.network(samples, mode), settings_.loss);
  // Gradients of micro-batches are added: a short one counts as much as it has samples.
  const double weight = settings_.accumulate > 1 ? static_cast<double>(samples) / static_cast<double>(micro_) : 1;
  return std::make_unique<BoundNetwork>(graph, scores_, backend_, set_, options_for(graph, mode), weight);
}

BoundNetwork& Trainer::learner(Index samples) {
  auto& known = learners_[samples];
  if (!known) known = compile(samples, Mode::training);
  return *known;
}

BoundNetwork& Trainer::tester(Index samples) {
  auto& known = testers_[samples];
  if (!known) known = compile(samples, Mode::inference);
  return *known;
}

StepTimes Trainer::take_step(Loader& loader) {
  StepTimes times;
  const Index micros = std::min(settings_.accumulate, batches_of_epoch() - batch_);
  const Index samples = samples_of_step(micros);
  Moment now = moment();
  // In whole micro-batches; with one a step the loss is the mean over what there is.
  if (settings_.accumulate > 1) now.gradient_factor = 1 / (static_cast<double>(samples) / static_cast<double>(micro_));
  Step step(set_, *optimizer_, now);
  for (Index micro = 0; micro < micros; ++micro) {
    before(TrainingEvent::sampling);
    const double sampling = now_seconds();
    const Batch& batch = next(loader);
    BoundNetwork& network = learner(batch.size());
    network.feed(feed_, batch);
    times.input += now_seconds() - sampling;
    after(TrainingEvent::sampling);
    train_->check_target(network.target(), batch.samples);
    before(TrainingEvent::batch);
    if (micro == 0) {
      const double preparing = now_seconds();
      optimizer_->new_input(now);
      if (!optimizer_->evaluates()) {
        optimizer_->prepare();
        scheme_->begin_step(step);
      }
      times.optimizer += now_seconds() - preparing;
    }
    const double computing = now_seconds();
    if (optimizer_->evaluates()) {  // its own arithmetic between the evaluations counts as theirs
      Retried retried(network, set_, position(0, batch.size()));
      loss_ = optimizer_->step(retried);
      set_.touch();
    } else {
      learn(network, position(micro * micro_, samples), micro > 0, micro + 1 == micros);
    }
    times.operators += now_seconds() - computing;
    if (std::isfinite(loss_)) {
      train_->add(loss_, network.scores(), network.target(), batch.samples);
      result_.samples += batch.size() * settings_.ranks;
      ++batch_;
    }
    after(TrainingEvent::batch);
    if (!std::isfinite(loss_)) {
      diverge(fmt::format("{}", loss_));
      return times;
    }
  }
  if (optimizer_->evaluates()) return times;
  before(TrainingEvent::optimizer_step);
  const double updating = now_seconds();
  scheme_->finish_step(step);
  set_.touch();
  times.optimizer += now_seconds() - updating;
  after(TrainingEvent::optimizer_step);
  return times;
}

void Trainer::learn(BoundNetwork& network, Position position, bool adds, bool is_last) {
  before(TrainingEvent::forward);
  network.forward(position);
  // On a device the host runs ahead, and waits once a step: for the loss, when all is under way.
  const bool waits = set_.masters({0, 0}).memory().is_host() || scheme_->overlaps();
  if (waits) loss_ = network.loss();
  after(TrainingEvent::forward);
  Passing passing(*scheme_);
  before(TrainingEvent::backward);
  if (!waits || std::isfinite(loss_)) network.backward(adds, scheme_->overlaps() && is_last ? &passing : nullptr);
  after(TrainingEvent::backward);
  network.keep_statistics();
  if (!waits) loss_ = network.loss();
}

void Trainer::test_batch(const Batch& batch, Index) {
  BoundNetwork& network = tester(batch.size());
  network.feed(feed_, batch);
  test_->check_target(network.target(), batch.samples);
  before(TrainingEvent::batch);
  network.forward({});
  test_->add(network.loss(), network.scores(), network.target(), batch.samples);
  after(TrainingEvent::batch);
}

NamedTensors Trainer::networks_to_save() { return saved_network("", set_, scheme_->state_to_save(set_, *optimizer_)); }
void Trainer::restore_networks(const Checkpoint& saved) { restore_network(saved, "", set_, *optimizer_); }

size_t Trainer::bytes() const {
  const bool on_host = set_.masters({0, 0}).memory().is_host();
  size_t bytes = bytes_of(set_, *optimizer_), most = 0;
  for (const auto* all : {&learners_, &testers_})
    for (const auto& [samples, network] : *all) {
      const size_t own = network->executable().bytes();
      most = std::max(most, own);
      if (on_host) bytes += own;
    }
  return on_host ? bytes : bytes + most;  // each of them tells of the whole process
}

Facts Trainer::kernels() const { return learners_.at(micro_)->executable().kernels(); }

}  // namespace d5
