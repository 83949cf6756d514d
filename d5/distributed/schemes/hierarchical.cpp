// SPDX-License-Identifier: Apache-2.0
// Two levels: within machines in every step, between them less often.
//   period = 1    g = 1/n sum_r g_r by a tree within machines and a ring of one rank of each: as dsgd, and the network
//                 carries each gradient once for a machine, not once for a rank
//   period > 1    g = 1/m sum of the m ranks of this machine; after every `period` steps p = 1/n sum_r p_r
//                 (hierarchical local SGD; Lin, Stich, Patel and Jaggi, 2020)
#include <algorithm>

#include "d5/distributed/bucketed_scheme.hpp"

namespace d5 {
namespace {

class HierarchicalScheme final : public BucketedScheme {
 public:
  static constexpr const char* about =
      "gradients meet within machines in every step, between them every `period` steps";
  static std::vector<Parameter> parameters() { return {bucket_parameter(), {"period", "steps between machines", 1}}; }

  HierarchicalScheme(const Attributes& values, Communicator* communicator)
      : BucketedScheme("hierarchical", communicator, values),
        period_(integer_in(values, "period", 1, 1 << 30, place())) {}

  void begin_training(const TrainingStart& start) override {
    BucketedScheme::begin_training(start);
    dtype_ = start.parameters.compute_dtype();
    const std::vector<int>& nodes = communicator().nodes();
    if (period_ > 1) machine_.emplace(*communicator().split(nodes[static_cast<size_t>(rank())], rank()));
    machines_ = 1 + *std::ranges::max_element(nodes);
  }
  void finish_step(Step& step) override {
    BucketedScheme::finish_step(step);
    if (period_ > 1 && step.moment().step % period_ == 0) average(step.parameters());
  }

 protected:
  bool ranks_differ() const override { return period_ > 1 && machines_ > 1; }
  Request reduce(size_t, Range range, std::byte* gradients) override {
    Operation mean{.collective = Collective::allreduce,
                   .input = gradients,
                   .output = gradients,
                   .count = range.count,
                   .dtype = dtype_,
                   .reduction = Reduction::mean};
    if (machine_) return machine_->start(mean);
    mean.algorithm = "hierarchical";
    return communicator().start(mean);
  }
  double least_bytes() const override {
    if (period_ == 1) return dense_least_bytes();
    return 2.0 * (ranks() - machines_) * arena_bytes() +
           2.0 * (ranks() - 1) * master_bytes() / static_cast<double>(period_);
  }
  int64_t sent_bytes() const override { return RankScheme::sent_bytes() + (machine_ ? machine_->traffic().bytes : 0); }

 private:
  int64_t period_;
  int machines_ = 1;
  DType dtype_ = DType::f32;
  std::optional<Communicator> machine_;  // the ranks beside this one
};

}  // namespace
D5_REGISTER(schemes, "hierarchical", HierarchicalScheme);
}  // namespace d5
