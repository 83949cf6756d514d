// SPDX-License-Identifier: Apache-2.0
// Elastic averaging SGD (Zhang, Choromanska and LeCun, 2015), synchronous: every rank steps alone and is drawn towards
// a centre, which is drawn towards all of them. The centre is the same bits on every rank; it is what is tested.
//   every `period` steps:   d_r = p_r - c      p_r = p_r - beta/n d_r      c = c + beta/n sum_r d_r
//   p_r = update(p_r, g_r)
#include <algorithm>

#include "d5/distributed/rank_scheme.hpp"

namespace d5 {
namespace {

class ElasticAveraging final : public RankScheme {
 public:
  static constexpr const char* about = "every rank steps alone, drawn towards a common centre every `period` steps";
  static std::vector<Parameter> parameters() {
    return {{"period", "steps between exchanges", 4}, {"beta", "how far the centre moves to the mean, 0 to 1", 0.9}};
  }

  ElasticAveraging(const Attributes& values, Communicator* communicator)
      : RankScheme("easgd", communicator),
        period_(integer_in(values, "period", 1, 1 << 30, place())),
        pull_(static_cast<float>(real_in(values, "beta", 0, 1, place()) / ranks())) {}

  void begin_training(const TrainingStart& start) override {
    RankScheme::begin_training(start);
    const ParameterSet& set = start.parameters;
    centre_ = set.masters(set.all()).clone();
    differences_.resize(static_cast<size_t>(set.elements()));
  }

  void finish_step(Step& step) override {
    if (step.moment().step % period_ == 0) exchange(step.parameters());
    step.update(step.all());
  }

  void begin_test(ParameterSet& set) override {
    own_ = set.masters(set.all()).clone();
    end_training(set);
  }
  void end_test(ParameterSet& set) override {
    set.masters(set.all()).copy_from(own_);
    refresh_computes(set);
  }
  void end_training(ParameterSet& set) override {
    set.masters(set.all()).copy_from(centre_);
    refresh_computes(set);
  }
  State state() override { return {{"centre", centre_}}; }

 protected:
  double least_bytes() const override { return 2.0 * (ranks() - 1) * master_bytes() / static_cast<double>(period_); }

 private:
  void exchange(ParameterSet& set) {
    const auto own = set.masters(set.all()).values<float>(), centre = centre_.values<float>();
    for (size_t i = 0; i < own.size(); ++i) {
      differences_[i] = own[i] - centre[i];
      own[i] -= pull_ * differences_[i];
    }
    communicator().run({.collective = Collective::allreduce,
                        .input = differences_.data(),
                        .output = differences_.data(),
                        .count = static_cast<int64_t>(differences_.size())});
    for (size_t i = 0; i < centre.size(); ++i) centre[i] += pull_ * differences_[i];
    refresh_computes(set);
  }

  int64_t period_;
  float pull_;
  Tensor centre_, own_;
  std::vector<float> differences_;
};

}  // namespace
D5_REGISTER(schemes, "easgd", ElasticAveraging);
}  // namespace d5
