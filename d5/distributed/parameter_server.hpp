// SPDX-License-Identifier: Apache-2.0
// Asynchronous parameter servers. The first ranks own a shard (whole parameters) each and serve it by a thread of their
// own, with parameters and an optimizer of their own beside those of the rank's network: a worker that pushes gradients
// waits for the server's update alone, never for what another worker computes.
//   worker:  push (version of its parameters, moment, gradients)   ->   server: update, answers (version, parameters)
// The server may hold an answer back (bounded staleness). Staleness of a push: the updates that the shard has had since
// its worker got the parameters.
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "d5/distributed/rank_scheme.hpp"

namespace d5 {

// What a server saw: of all pushes.
struct Staleness {
  int64_t pushes = 0, sum = 0, most = 0;
  int64_t widest_gap = 0;  // steps by which an answered worker was ahead of the slowest one that still trains
};

// What a worker writes and a server answers; gradients and parameters follow.
struct ServerLetter {
  enum Kind : int64_t { push, pull, leave };
  int64_t kind = push, version = 0;
  Moment moment = {};
};

class ShardServer {
 public:
  // `shard` is a range of whole parameters of `start`; workers are the ranks of `channel`. `slack`: how many steps a
  // worker may be ahead of the slowest; below 0: any.
  ShardServer(Communicator& channel, const TrainingStart& start, ParameterSet::Range shard, int64_t slack);
  ~ShardServer();

  void begin();                // the thread: what it serves must be there
  void end() noexcept;         // the thread, at once; nothing is under way any more as far as this side is concerned
  void wait_until_all_left();  // rethrows what ended the thread
  Staleness staleness() const { return seen_; }  // after that
  // Before begin(), or while no worker has written: the updates so far, and the optimizer of the shard.
  int64_t& version() { return version_; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  struct Worker;
  void serve();
  bool attend(Worker&);
  void apply(Worker&);
  void answer(Worker&);
  void expect(Worker&);
  int64_t gap(const Worker&) const;

  Communicator& channel_;
  int64_t slack_;
  ParameterSet set_;
  std::unique_ptr<Optimizer> optimizer_;
  int64_t version_ = 0;
  Staleness seen_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<bool> ends_{false};
  std::exception_ptr error_;
  std::thread thread_;
};

// The worker's side: every rank is one.
class ServedScheme : public RankScheme {
 public:
  ~ServedScheme() override;
  bool in_step() const override { return false; }
  void begin_training(const TrainingStart&) override;
  void finish_step(Step&) override;
  void begin_test(ParameterSet&) override;  // all ranks meet: the servers' parameters are tested
  void end_training(ParameterSet&) override;
  // All ranks meet; afterwards no server has more than they know.
  std::vector<Optimizer::State> state_to_save(ParameterSet&, Optimizer&) override;
  State state() override;
  void abandon() noexcept override;
  Numbers measured() const override;

 protected:
  ServedScheme(std::string name, Communicator*, const Attributes&, int64_t slack);
  static Parameter servers_parameter();
  double least_bytes() const override { return (ranks() - 1) * (arena_bytes() + master_bytes()); }
  int64_t sent_bytes() const override;

 private:
  void exchange(ParameterSet&, int64_t kind, const Moment*);
  void pull_together(ParameterSet&);
  void begin_serving();
  void copy_states(Optimizer& own, Range shard, bool to_server);
  int servers_;
  int64_t slack_;
  std::vector<Range> shards_;
  std::vector<ServerLetter> out_, in_;   // to and from servers
  int64_t saved_version_ = 0;            // of all shards, when a checkpoint was made
  bool serves_ = false;                  // from the first exchange on
  std::optional<ShardServer> server_;    // of this rank's shard
  std::optional<Communicator> channel_;  // ends before what its messages lie in
  std::vector<Request> pending_;
  Staleness seen_;
};

}  // namespace d5
