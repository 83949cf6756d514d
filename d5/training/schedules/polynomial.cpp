// SPDX-License-Identifier: Apache-2.0
// A power of what is left of the run.
//   factor = end + (1 - end) (1 - min(1, t / length))^power
#include <algorithm>
#include <cmath>

#include "d5/core/error.hpp"
#include "d5/training/schedule.hpp"

namespace d5 {
namespace {

class Polynomial final : public Schedule {
 public:
  static constexpr const char* about = "a power of what is left of the run";
  static std::vector<Parameter> parameters() {
    return {{"length", "of the whole fall; 0: the whole run", 0.0},
            {"power", "1: a line", 1.0},
            {"end", "the last factor", 0.0}};
  }

  Polynomial(const Attributes& a, const Timeline& timeline)
      : timeline_(timeline),
        length_(timeline.length(a.real("length", 0))),
        power_(a.real("power", 0)),
        end_(a.real("end", 0)) {}

  double factor(const Moment& moment) const override {
    const double left = 1 - std::min(1.0, timeline_.at(moment) / length_);
    return end_ + (1 - end_) * std::pow(left, power_);
  }

 private:
  Timeline timeline_;
  double length_, power_, end_;
};

}  // namespace
D5_REGISTER(schedules, "polynomial", Polynomial);
}  // namespace d5
