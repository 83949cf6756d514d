// SPDX-License-Identifier: Apache-2.0
// The rate falls by a factor at given moments.
//   factor = gamma^(how many milestones are not after t)
#include <algorithm>
#include <cmath>

#include "d5/core/error.hpp"
#include "d5/training/schedule.hpp"

namespace d5 {
namespace {

class MultiStep final : public Schedule {
 public:
  static constexpr const char* about = "falls by a factor at given moments";
  static std::vector<Parameter> parameters() {
    return {{"milestones", "moments", std::vector<int64_t>{30, 60, 80}}, {"gamma", "the factor", 0.1}};
  }

  MultiStep(const Attributes& a, const Timeline& timeline)
      : timeline_(timeline), milestones_(a.integers("milestones")), gamma_(a.real("gamma", 0)) {
    for (const int64_t milestone : milestones_)
      if (milestone < 0) throw UsageError("[multi-step] a milestone is {}; 0 and more are legal", milestone);
  }

  double factor(const Moment& moment) const override {
    const double t = timeline_.at(moment);
    const auto passed = std::ranges::count_if(milestones_, [&](int64_t m) { return static_cast<double>(m) <= t; });
    return std::pow(gamma_, static_cast<double>(passed));
  }

 private:
  Timeline timeline_;
  std::vector<int64_t> milestones_;
  double gamma_;
};

}  // namespace
D5_REGISTER(schedules, "multi-step", MultiStep);
}  // namespace d5
