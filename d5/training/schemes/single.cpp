// SPDX-License-Identifier: Apache-2.0
// One process: the gradients are there, the optimizer steps.
#include "d5/training/scheme.hpp"

namespace d5 {
namespace {

class Single final : public Scheme {
 public:
  static constexpr const char* about = "one process: the optimizer steps at once";
  static std::vector<Parameter> parameters() { return {}; }

  Single(const Attributes&, Communicator*) {}
  void finish_step(Step& step) override { step.update(step.all()); }
};

}  // namespace
D5_REGISTER(schemes, "single", Single);
}  // namespace d5
