// SPDX-License-Identifier: Apache-2.0
// Gossip (Jin et al., 2016), a scheme that deep500 does not have: every rank steps alone, and after each step it
// becomes the mean of itself and one partner, another one in every step.
//   p_r = update(p_r, g_r)      p_r = (p_r + p_partner) / 2
#include "d5/distributed/rank_scheme.hpp"

namespace {

using namespace d5;

class Gossip final : public RankScheme {
 public:
  static constexpr const char* about = "every rank steps alone, then meets one partner (Jin et al., 2016)";
  static std::vector<Parameter> parameters() { return {{"stride", "by which partners change from step to step", 1}}; }

  Gossip(const Attributes& values, Communicator* communicator)
      : RankScheme("gossip", communicator), stride_(integer_in(values, "stride", 0, 1 << 20, place())) {}

  void finish_step(Step& step) override {
    step.update(step.all());
    // Ranks r and s meet where r + s = round (mod n): everyone has one partner, some of them themselves.
    const auto n = static_cast<int64_t>(ranks());
    const auto partner = static_cast<int>(((step.moment().step * stride_ - rank()) % n + n) % n);
    if (partner == rank()) return;
    const Index count = step.parameters().elements();
    theirs_.resize(static_cast<size_t>(count));
    float* const own = masters_at(step.parameters(), step.all());
    Request received = communicator().receive(partner, theirs_.data(), theirs_.size() * sizeof(float));
    Request sent = communicator().send(partner, own, theirs_.size() * sizeof(float));
    received.wait();
    sent.wait();
    for (size_t i = 0; i < theirs_.size(); ++i) own[i] = (own[i] + theirs_[i]) / 2;
    refresh_computes(step.parameters());
  }

 protected:
  bool ranks_differ() const override { return true; }  // the mean is tested, and left at the end
  double least_bytes() const override { return (ranks() - 2) * master_bytes(); }  // two at most meet themselves

 private:
  int64_t stride_;
  std::vector<float> theirs_;
};

}  // namespace

D5_REGISTER(schemes, "gossip", Gossip);
