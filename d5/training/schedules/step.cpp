// SPDX-License-Identifier: Apache-2.0
// The rate falls by a factor, again and again.
//   factor = gamma^floor(t / every)
#include <cmath>

#include "d5/core/error.hpp"
#include "d5/training/schedule.hpp"

namespace d5 {
namespace {

class Step final : public Schedule {
 public:
  static constexpr const char* about = "falls by a factor, again and again";
  static std::vector<Parameter> parameters() {
    return {{"every", "length between two falls", 30.0}, {"gamma", "the factor", 0.1}};
  }

  Step(const Attributes& a, const Timeline& timeline)
      : timeline_(timeline), every_(a.real("every", 0)), gamma_(a.real("gamma", 0)) {
    if (!(every_ > 0)) throw UsageError("[step] every is {}; more than 0 is wanted", every_);
  }

  double factor(const Moment& moment) const override {
    return std::pow(gamma_, std::floor(timeline_.at(moment) / every_));
  }

 private:
  Timeline timeline_;
  double every_, gamma_;
};

}  // namespace
D5_REGISTER(schedules, "step", Step);
}  // namespace d5
