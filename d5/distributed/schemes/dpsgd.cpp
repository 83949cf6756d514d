// SPDX-License-Identifier: Apache-2.0
// Decentralised SGD (D-PSGD; Lian et al., 2017): parameters are mixed with those of neighbours, by a doubly stochastic
// matrix W, while gradients are computed at the parameters before.
//   p_r = update(sum_s W_rs p_s, g_r(p_r))
// Nobody waits for more than its neighbours. The mean over ranks is tested, and left at the end.
#include <algorithm>

#include "d5/distributed/mixing.hpp"
#include "d5/distributed/rank_scheme.hpp"

namespace d5 {
namespace {

class DecentralisedSgd final : public RankScheme {
 public:
  static constexpr const char* about = "parameters are mixed with neighbours' while gradients are computed";
  static std::vector<Parameter> parameters() {
    return {{"topology", "ring, torus, exponential or one-peer (exponential, one neighbour a step)", "ring"}};
  }

  DecentralisedSgd(const Attributes& values, Communicator* communicator)
      : RankScheme("dpsgd", communicator), topology_(one_of(values, "topology", topologies(), place())) {
    for (int phase = 0; phase < mixing_phases(topology_, ranks()); ++phase) {
      rows_.push_back(mixing_row(topology_, ranks(), rank(), phase));
      receivers_.push_back(mixing_receivers(topology_, ranks(), rank(), phase));
    }
  }

  void begin_training(const TrainingStart& start) override {
    RankScheme::begin_training(start);
    size_t most = 0;
    for (const auto& row : rows_) most = std::max(most, row.size() - 1);
    theirs_.assign(most, std::vector<float>(static_cast<size_t>(start.parameters.elements())));
  }

  // Parameters travel as they lie, for nobody writes them until finish_step; but running statistics change with the
  // pass that goes on.
  void begin_step(Step& step) override {
    const float* own = masters_at(step.parameters(), step.all());
    if (has_statistics()) {
      sent_.assign(own, own + step.parameters().elements());
      own = sent_.data();
    }
    const auto bytes = static_cast<size_t>(step.parameters().elements()) * sizeof(float);
    const auto& row = rows_[phase(step)];
    for (size_t i = 1; i < row.size(); ++i)
      pending_.push_back(communicator().receive(row[i].rank, theirs_[i - 1].data(), bytes));
    for (const int to : receivers_[phase(step)]) pending_.push_back(communicator().send(to, own, bytes));
  }

  void finish_step(Step& step) override {
    wait_all(pending_);
    const auto& row = rows_[phase(step)];
    float* const own = masters_at(step.parameters(), step.all());
    const auto weight = static_cast<float>(row[0].weight);  // the same for all
    for (size_t k = 0; k < static_cast<size_t>(step.parameters().elements()); ++k) {
      float sum = own[k];
      for (size_t i = 1; i < row.size(); ++i) sum += theirs_[i - 1][k];
      own[k] = weight * sum;
    }
    refresh_computes(step.parameters());
    step.update(step.all());
  }
  void abandon() noexcept override { end_all(pending_); }

 protected:
  bool ranks_differ() const override { return true; }
  double least_bytes() const override {
    return static_cast<double>(ranks()) * static_cast<double>(rows_[0].size() - 1) * master_bytes();
  }

 private:
  size_t phase(const Step& step) const { return static_cast<size_t>(step.moment().step) % rows_.size(); }
  std::string topology_;
  std::vector<std::vector<MixingWeight>> rows_;  // by phase: this rank first
  std::vector<std::vector<int>> receivers_;
  std::vector<std::vector<float>> theirs_;
  std::vector<float> sent_;
  std::vector<Request> pending_;
};

}  // namespace
D5_REGISTER(schemes, "dpsgd", DecentralisedSgd);
}  // namespace d5
