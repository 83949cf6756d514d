// SPDX-License-Identifier: Apache-2.0
// Model averaging, local SGD (Zinkevich et al., 2010; Stich, 2019): every rank steps alone; after every `period` steps
// the parameters become their mean. The optimizer's state stays each rank's own.
//   p_r = update(p_r, g_r)      every `period` steps: p_r = 1/n sum_s p_s
#include "d5/distributed/rank_scheme.hpp"

namespace d5 {
namespace {

class ModelAveraging final : public RankScheme {
 public:
  static constexpr const char* about = "every rank steps alone; parameters become their mean every `period` steps";
  static std::vector<Parameter> parameters() { return {{"period", "steps from mean to mean", 8}}; }

  ModelAveraging(const Attributes& values, Communicator* communicator)
      : RankScheme("mavg", communicator), period_(integer_in(values, "period", 1, 1 << 30, place())) {}

  void finish_step(Step& step) override {
    step.update(step.all());
    if (step.moment().step % period_ == 0) average(step.parameters());
  }

 protected:
  bool ranks_differ() const override { return true; }
  double least_bytes() const override { return 2.0 * (ranks() - 1) * master_bytes() / static_cast<double>(period_); }

 private:
  int64_t period_;
};

}  // namespace
D5_REGISTER(schemes, "mavg", ModelAveraging);
}  // namespace d5
