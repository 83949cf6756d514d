// SPDX-License-Identifier: Apache-2.0
// Synchronous parameter servers (Li et al., 2014): the first `servers` ranks own a shard of the parameters each. Every
// rank sends its gradients of a shard to the owner, which adds them in the order of ranks, steps, and answers with the
// parameters.
//   server:  g = 1/n (g_0 + g_1 + ... )      p = update(p, g)
#include <cstring>

#include "d5/distributed/rank_scheme.hpp"

namespace d5 {
namespace {

constexpr int gradient_tag = 0, parameter_tag = 1;

class ParameterServers final : public RankScheme {
 public:
  static constexpr const char* about = "synchronous, ranks that own shards add up the gradients of all and answer";
  static std::vector<Parameter> parameters() {
    return {{"servers", "the first so many ranks own a shard each; 0: all of them", 0}};
  }

  ParameterServers(const Attributes& values, Communicator* communicator)
      : RankScheme("pssgd", communicator),
        servers_(static_cast<int>(integer_in(values, "servers", 0, ranks(), place()))) {
    if (servers_ == 0) servers_ = ranks();
  }

  std::unique_ptr<Optimizer> make_optimizer(const ParameterSet& set, const MakeOptimizer& make) override {
    auto without_state = make({});
    shards_ = shards(set, *without_state, servers_, place());
    return rank() < servers_ ? make(shard(rank())) : std::move(without_state);
  }
  void begin_training(const TrainingStart& start) override {
    RankScheme::begin_training(start);
    dtype_ = start.parameters.compute_dtype();
    if (rank() < servers_) given_.assign(static_cast<size_t>(ranks()), std::vector<std::byte>(gradient_bytes(rank())));
  }

  void finish_step(Step& step) override {
    ParameterSet& set = step.parameters();
    keep_statistics(set);
    for (int worker = 0; rank() < servers_ && worker < ranks(); ++worker)
      if (worker != rank())
        given_by_.push_back(communicator().receive(worker, given(worker), gradient_bytes(rank()), gradient_tag));
    for (int server = 0; server < servers_; ++server) {
      if (server == rank()) continue;
      sent_.push_back(
          communicator().send(server, gradients_at(set, shard(server)), gradient_bytes(server), gradient_tag));
      got_.push_back(
          communicator().receive(server, masters_at(set, shard(server)), master_bytes_of(server), parameter_tag));
    }
    if (rank() < servers_) serve(step);
    wait_all(got_);
    wait_all(sent_);
    restore_statistics(set);
    refresh_computes(set);
  }
  std::vector<Optimizer::State> state_to_save(ParameterSet& set, Optimizer& optimizer) override {
    return whole_state(set, optimizer, shards_);
  }
  void abandon() noexcept override {
    for (auto* requests : {&given_by_, &got_, &sent_}) end_all(*requests);
  }

 protected:
  double least_bytes() const override { return (ranks() - 1) * (arena_bytes() + master_bytes()); }

 private:
  Range shard(int server) const { return shards_[static_cast<size_t>(server)]; }
  size_t gradient_bytes(int server) const { return static_cast<size_t>(storage_bytes(dtype_, shard(server).count)); }
  size_t master_bytes_of(int server) const { return static_cast<size_t>(shard(server).count) * sizeof(float); }
  std::byte* given(int worker) { return given_[static_cast<size_t>(worker)].data(); }

  void serve(Step& step) {
    const Range mine = shard(rank());
    std::byte* const sum = gradients_at(step.parameters(), mine);
    wait_all(given_by_);
    if (ranks() > 1) {
      if (const size_t bytes = gradient_bytes(rank()); bytes > 0) std::memcpy(given(rank()), sum, bytes);
      const Operation mean{.count = mine.count, .dtype = dtype_, .reduction = Reduction::mean, .divisor = ranks()};
      combine(mean, sum, given(0), given(1), mine.count);
      for (int worker = 2; worker < ranks(); ++worker) combine(mean, sum, sum, given(worker), mine.count);
      finish(mean, sum, mine.count);
    }
    if (mine.count > 0) step.update(mine);
    for (int worker = 0; worker < ranks(); ++worker)
      if (worker != rank())
        sent_.push_back(
            communicator().send(worker, masters_at(step.parameters(), mine), master_bytes_of(rank()), parameter_tag));
  }

  int servers_;
  DType dtype_ = DType::f32;
  std::vector<Range> shards_;                  // of servers
  std::vector<std::vector<std::byte>> given_;  // to a server: gradients of its shard, by rank
  std::vector<Request> given_by_, got_, sent_;
};

}  // namespace
D5_REGISTER(schemes, "pssgd", ParameterServers);
}  // namespace d5
