// SPDX-License-Identifier: Apache-2.0
// Sharded optimizer (ZeRO stage 1; Rajbhandari et al., 2020): every rank owns a contiguous shard of the parameters and
// its optimizer's state. Gradients of a shard are reduced to its owner during backward, which alone updates it; then
// the parameters go to everyone. As many bytes as a dense allreduce, a 1/n of the optimizer's work and state.
//   owner r:  g = 1/n sum_s g_s      p = update(p, g)      everyone: p of all shards
#include "d5/distributed/bucketed_scheme.hpp"

namespace d5 {
namespace {

class Zero1 final : public BucketedScheme {
 public:
  static constexpr const char* about = "synchronous, every rank updates a shard of the parameters and tells the others";
  static std::vector<Parameter> parameters() { return {}; }

  Zero1(const Attributes&, Communicator* communicator)
      : BucketedScheme("zero1", communicator, Attributes{{"bucket_mb", 1.0}}) {}

  std::unique_ptr<Optimizer> make_optimizer(const ParameterSet& set, const MakeOptimizer& make) override {
    const auto without_state = make({});
    shards_ = shards(set, *without_state, ranks(), place());
    return make(shards_[static_cast<size_t>(rank())]);
  }
  void finish_step(Step& step) override {
    begin_rest();
    ParameterSet& set = step.parameters();
    const auto mine = static_cast<size_t>(rank());
    wait_for(mine);
    keep_statistics(set);
    if (bucket(mine).count > 0) step.update(bucket(mine));
    for (size_t owner = 0; owner < buckets(); ++owner) {
      wait_for(owner);
      if (bucket(owner).count == 0) continue;  // more ranks than lines of the arena
      float* const masters = masters_at(set, bucket(owner));
      shared_.push_back(communicator().start({.collective = Collective::broadcast,
                                              .input = masters,
                                              .output = masters,
                                              .count = bucket(owner).count,
                                              .root = static_cast<int>(owner)}));
    }
    wait_all(shared_);
    restore_statistics(set);
    refresh_computes(set);
    end_step();
  }
  std::vector<Optimizer::State> state_to_save(ParameterSet& set, Optimizer& optimizer) override {
    return whole_state(set, optimizer, shards_);
  }
  void abandon() noexcept override {
    BucketedScheme::abandon();
    end_all(shared_);
  }

 protected:
  std::vector<Range> divide(const TrainingStart& start) override {
    dtype_ = start.parameters.compute_dtype();
    return shards_;
  }
  Request reduce(size_t owner, Range range, std::byte* gradients) override {
    if (range.count == 0) return {};
    return communicator().start({.collective = Collective::reduce,
                                 .input = gradients,
                                 .output = gradients,
                                 .count = range.count,
                                 .dtype = dtype_,
                                 .reduction = Reduction::mean,
                                 .root = static_cast<int>(owner)});
  }
  double least_bytes() const override { return (ranks() - 1) * (arena_bytes() + master_bytes()); }

 private:
  DType dtype_ = DType::f32;
  std::vector<Range> shards_;  // of ranks
  std::vector<Request> shared_;
};

}  // namespace
D5_REGISTER(schemes, "zero1", Zero1);
}  // namespace d5
