// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/parameter_server.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace d5 {
namespace {

enum Tag { push_tag, gradient_tag, answer_tag, parameter_tag };

ParameterSet part_of(const ParameterSet& all, ParameterSet::Range shard) {
  ParameterSet part(all.compute_dtype());
  for (const ParameterSet::Parameter& p : all.parameters())
    if (p.offset >= shard.first && p.offset < shard.first + shard.count) part.add(p);
  part.freeze();
  if (part.elements() != shard.count)
    throw Error("[parameter server] a shard of {} elements does not begin and end with a parameter", shard.count);
  part.masters(part.all()).copy_from(all.masters(shard));
  return part;
}

}  // namespace

struct ShardServer::Worker {
  enum class State { writes, sends_gradients, waits, left };
  int rank = 0;
  State state = State::writes;
  int64_t steps = 0;
  ServerLetter letter, reply;
  std::vector<std::byte> gradients;
  std::vector<float> parameters;  // as they were when it was answered
  Request arrives;
  std::vector<Request> sent;
};

ShardServer::ShardServer(Communicator& channel, const TrainingStart& start, ParameterSet::Range shard, int64_t slack)
    : channel_(channel), slack_(slack), set_(part_of(start.parameters, shard)), optimizer_(start.make_optimizer(set_)) {
  for (int rank = 0; rank < channel.size(); ++rank) {
    workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_.back();
    worker.rank = rank;
    worker.gradients.resize(set_.gradients(set_.all()).bytes());
    worker.parameters.resize(static_cast<size_t>(set_.elements()));
  }
}

void ShardServer::begin() {
  thread_ = std::thread([this] {
    try {
      serve();
    } catch (...) {
      error_ = std::current_exception();
    }
  });
}

ShardServer::~ShardServer() { end(); }

void ShardServer::end() noexcept {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
  for (const auto& worker : workers_) {
    worker->arrives = {};
    worker->sent.clear();
  }
}

void ShardServer::wait_until_all_left() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(error_);
}

void ShardServer::serve() {
  for (const auto& worker : workers_) expect(*worker);
  int idle = 0;
  while (!ends_ && std::ranges::any_of(workers_, [](const auto& w) { return w->state != Worker::State::left; })) {
    bool moved = false;
    for (const auto& worker : workers_) moved |= attend(*worker);
    idle = moved ? 0 : idle + 1;
    if (idle > 100)  // the cores are the workers'
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    else if (idle > 0)
      std::this_thread::yield();
  }
}

void ShardServer::expect(Worker& worker) {
  worker.state = Worker::State::writes;
  worker.arrives = channel_.receive(worker.rank, &worker.letter, sizeof worker.letter, push_tag);
}

bool ShardServer::attend(Worker& worker) {
  switch (worker.state) {
    case Worker::State::writes:
      if (!worker.arrives.done()) return false;
      if (worker.letter.kind == ServerLetter::leave) {
        worker.state = Worker::State::left;
        wait_all(worker.sent);
      } else if (worker.letter.kind == ServerLetter::pull) {
        answer(worker);
      } else {
        worker.state = Worker::State::sends_gradients;
        worker.arrives = channel_.receive(worker.rank, worker.gradients.data(), worker.gradients.size(), gradient_tag);
      }
      return true;
    case Worker::State::sends_gradients:
      if (!worker.arrives.done()) return false;
      apply(worker);
      worker.state = Worker::State::waits;
      return true;
    case Worker::State::waits:
      if (slack_ >= 0 && gap(worker) > slack_) return false;
      seen_.widest_gap = std::max(seen_.widest_gap, gap(worker));
      answer(worker);
      return true;
    case Worker::State::left: break;
  }
  return false;
}

int64_t ShardServer::gap(const Worker& worker) const {
  int64_t slowest = worker.steps;
  for (const auto& other : workers_)
    if (other->state != Worker::State::left) slowest = std::min(slowest, other->steps);
  return worker.steps - slowest;
}

void ShardServer::apply(Worker& worker) {
  const int64_t stale = version_ - worker.letter.version;
  ++seen_.pushes;
  seen_.sum += stale;
  seen_.most = std::max(seen_.most, stale);
  ++worker.steps;
  if (!worker.gradients.empty())
    std::memcpy(set_.gradients(set_.all()).data(), worker.gradients.data(), worker.gradients.size());
  Moment moment = worker.letter.moment;
  moment.step = ++version_;  // the updates of this shard are counted, not the worker's steps
  optimizer_->new_input(moment);
  optimizer_->update(set_.all());
}

void ShardServer::answer(Worker& worker) {
  wait_all(worker.sent);  // it has what was sent before, or it would not have written
  std::ranges::copy(set_.masters(set_.all()).values<float>(), worker.parameters.begin());
  worker.reply.version = version_;
  worker.sent.push_back(channel_.send(worker.rank, &worker.reply, sizeof worker.reply, answer_tag));
  worker.sent.push_back(
      channel_.send(worker.rank, worker.parameters.data(), worker.parameters.size() * sizeof(float), parameter_tag));
  expect(worker);
}

Parameter ServedScheme::servers_parameter() {
  return {"servers", "the first so many ranks own a shard each; 0: all of them", 0};
}

ServedScheme::ServedScheme(std::string name, Communicator* communicator, const Attributes& values, int64_t slack)
    : RankScheme(std::move(name), communicator),
      servers_(static_cast<int>(integer_in(values, "servers", 0, ranks(), place()))),
      slack_(slack) {
  if (servers_ == 0) servers_ = ranks();
}

ServedScheme::~ServedScheme() { ServedScheme::abandon(); }

void ServedScheme::begin_training(const TrainingStart& start) {
  RankScheme::begin_training(start);
  shards(start.parameters, start.optimizer, servers_, place());  // refuses what cannot be divided
  shards_ = whole_parameters(start.parameters, servers_);
  out_.assign(static_cast<size_t>(servers_), {});
  in_ = out_;
  aside([&] { channel_.emplace(*communicator().split(0, rank())); });
  if (rank() < servers_ && shards_[static_cast<size_t>(rank())].count > 0)
    server_.emplace(*channel_, start, shards_[static_cast<size_t>(rank())], slack_);
  if (server_ && start.resumed) copy_states(start.optimizer, shards_[static_cast<size_t>(rank())], true);
}

// Between the server's optimizer and the part of the rank's own that stands for it in checkpoints.
void ServedScheme::copy_states(Optimizer& own, Range shard, bool to_server) {
  const auto theirs = server_->optimizer().state(), ours = own.state();
  for (size_t i = 0; i < ours.size(); ++i) {
    const Tensor& served = theirs[i].values;
    const Tensor part = ours[i].like_parameters ? ours[i].values.slice(shard.first, shard.count) : ours[i].values;
    to_server ? served.copy_from(part) : part.copy_from(served);
  }
}

std::vector<Optimizer::State> ServedScheme::state_to_save(ParameterSet& set, Optimizer& optimizer) {
  pull_together(set);
  if (server_) copy_states(optimizer, shards_[static_cast<size_t>(rank())], false);
  saved_version_ =
      std::ranges::max(in_, {}, &ServerLetter::version).version;  // the same for all: every push was answered
  return whole_state(set, optimizer, shards_);
}

Scheme::State ServedScheme::state() { return {{"version", Tensor::view(DType::i64, {1}, &saved_version_)}}; }

// The first of all: the state of a checkpoint is there by now.
void ServedScheme::begin_serving() {
  if (std::exchange(serves_, true)) return;
  for (ServerLetter& letter : in_) letter.version = saved_version_;
  if (!server_) return;
  server_->version() = saved_version_;
  server_->begin();
}

void ServedScheme::finish_step(Step& step) { exchange(step.parameters(), ServerLetter::push, &step.moment()); }

void ServedScheme::exchange(ParameterSet& set, int64_t kind, const Moment* moment) {
  begin_serving();
  keep_statistics(set);
  for (size_t s = 0; s < shards_.size(); ++s) {
    const int server = static_cast<int>(s);
    const Range shard = shards_[s];
    if (shard.count == 0) continue;  // more servers than parameters
    out_[s].kind = kind;
    out_[s].version = in_[s].version;
    if (moment) out_[s].moment = *moment;
    if (kind != ServerLetter::leave) {
      pending_.push_back(channel_->receive(server, &in_[s], sizeof in_[s], answer_tag));
      pending_.push_back(channel_->receive(server, masters_at(set, shard),
                                           static_cast<size_t>(shard.count) * sizeof(float), parameter_tag));
    }
    pending_.push_back(channel_->send(server, &out_[s], sizeof out_[s], push_tag));
    if (kind == ServerLetter::push)
      pending_.push_back(channel_->send(server, gradients_at(set, shard),
                                        static_cast<size_t>(storage_bytes(set.compute_dtype(), shard.count)),
                                        gradient_tag));
  }
  wait_all(pending_);
  restore_statistics(set);
  refresh_computes(set);
}

// Every push has been answered when its rank comes here, so between the barriers nothing moves.
void ServedScheme::pull_together(ParameterSet& set) {
  aside([&] {
    communicator().barrier();
    exchange(set, ServerLetter::pull, nullptr);
    communicator().barrier();
  });
}

void ServedScheme::begin_test(ParameterSet& set) {
  pull_together(set);
  RankScheme::begin_test(set);
}

void ServedScheme::end_training(ParameterSet& set) {
  pull_together(set);
  exchange(set, ServerLetter::leave, nullptr);
  if (server_) {
    server_->wait_until_all_left();
    seen_ = server_->staleness();
  }
}

void ServedScheme::abandon() noexcept {
  if (!channel_) return;
  if (server_) server_->end();
  pending_.clear();
  channel_.reset();  // the last that holds its messages: nobody delivers into the buffers any more
  server_.reset();
}

int64_t ServedScheme::sent_bytes() const {
  return RankScheme::sent_bytes() + (channel_ ? channel_->traffic().bytes : 0);
}

Scheme::Numbers ServedScheme::measured() const {
  Numbers numbers = RankScheme::measured();
  numbers.emplace_back("pushes", static_cast<double>(seen_.pushes));
  numbers.emplace_back("staleness_mean",
                       seen_.pushes > 0 ? static_cast<double>(seen_.sum) / static_cast<double>(seen_.pushes) : 0);
  numbers.emplace_back("staleness_most", static_cast<double>(seen_.most));
  numbers.emplace_back("steps_ahead_most", static_cast<double>(seen_.widest_gap));
  return numbers;
}

}  // namespace d5
