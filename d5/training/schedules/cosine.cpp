// SPDX-License-Identifier: Apache-2.0
// Half a cosine (Loshchilov and Hutter, 2017, without restarts).
//   factor = end + (1 - end) (1 + cos(pi min(1, t / length))) / 2
#include <algorithm>
#include <cmath>
#include <numbers>

#include "d5/core/error.hpp"
#include "d5/training/schedule.hpp"

namespace d5 {
namespace {

class Cosine final : public Schedule {
 public:
  static constexpr const char* about = "half a cosine (Loshchilov and Hutter, 2017)";
  static std::vector<Parameter> parameters() {
    return {{"length", "of the whole fall; 0: the whole run", 0.0}, {"end", "the last factor", 0.0}};
  }

  Cosine(const Attributes& a, const Timeline& timeline)
      : timeline_(timeline), length_(timeline.length(a.real("length", 0))), end_(a.real("end", 0)) {}

  double factor(const Moment& moment) const override {
    const double share = std::min(1.0, timeline_.at(moment) / length_);
    return end_ + (1 - end_) * (1 + std::cos(std::numbers::pi * share)) / 2;
  }

 private:
  Timeline timeline_;
  double length_, end_;
};

}  // namespace
D5_REGISTER(schedules, "cosine", Cosine);
}  // namespace d5
