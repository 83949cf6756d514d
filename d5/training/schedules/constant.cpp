// SPDX-License-Identifier: Apache-2.0
// The same rate all along.
//   factor = 1
#include "d5/training/schedule.hpp"

namespace d5 {
namespace {

class Constant final : public Schedule {
 public:
  static constexpr const char* about = "the same rate all along";
  static std::vector<Parameter> parameters() { return {}; }

  Constant(const Attributes&, const Timeline&) {}
  double factor(const Moment&) const override { return 1; }
};

}  // namespace
D5_REGISTER(schedules, "constant", Constant);
}  // namespace d5
