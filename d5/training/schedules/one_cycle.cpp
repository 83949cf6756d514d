// SPDX-License-Identifier: Apache-2.0
// One cycle (Smith and Topin, 2018): up to the full rate, then down to almost nothing, each half a cosine. The peak is
// at t = rise length - one step, the end at t = length - one step.
//   factor = from + (to - from) (1 - cos(pi share)) / 2
#include <algorithm>
#include <cmath>
#include <numbers>

#include "d5/core/error.hpp"
#include "d5/training/schedule.hpp"

namespace d5 {
namespace {

class OneCycle final : public Schedule {
 public:
  static constexpr const char* about = "up to the full rate and down again (Smith and Topin, 2018)";
  static std::vector<Parameter> parameters() {
    return {{"length", "of the cycle; 0: the whole run", 0.0},
            {"rise", "share of the cycle that goes up", 0.3},
            {"start", "the first factor", 0.04},
            {"end", "the last factor", 4e-6},
            {"by", "the unit of lengths: epoch or step", std::string("step")}};
  }

  OneCycle(const Attributes& a, const Timeline& timeline)
      : timeline_(timeline),
        length_(timeline.length(a.real("length", 0))),
        rise_(a.real("rise", 0)),
        start_(a.real("start", 0)),
        end_(a.real("end", 0)) {
    if (!(rise_ >= 0 && rise_ <= 1)) throw UsageError("[one-cycle] rise is {}; 0 to 1 are legal", rise_);
  }

  double factor(const Moment& moment) const override {
    const double t = timeline_.at(moment), peak = rise_ * length_ - timeline_.step(), last = length_ - timeline_.step();
    const bool rising = t < peak;
    const double from = rising ? start_ : 1, to = rising ? 1 : end_;
    const double share = rising ? t / peak : last > peak ? std::min(1.0, (t - peak) / (last - peak)) : 1;
    return from + (to - from) * (1 - std::cos(std::numbers::pi * share)) / 2;
  }

 private:
  Timeline timeline_;
  double length_, rise_, start_, end_;
};

}  // namespace
D5_REGISTER(schedules, "one-cycle", OneCycle);
}  // namespace d5
