// SPDX-License-Identifier: Apache-2.0
// Stale synchronous parallel (Ho et al., 2013): as asgd, but no rank begins a step while it is more than `slack` steps
// ahead of the slowest: its servers hold their answers back until then. So a rank that begins step t has parameters
// with every gradient of every rank up to step t - slack - 1. slack = 0: in lock-step, each rank's gradients a step of
// their own.
#include "d5/distributed/parameter_server.hpp"

namespace d5 {
namespace {

class StaleSynchronous final : public ServedScheme {
 public:
  static constexpr const char* about = "asynchronous, no rank more than `slack` steps ahead of the slowest";
  static std::vector<Parameter> parameters() {
    return {servers_parameter(), {"slack", "steps that a rank may be ahead of the slowest", 3}};
  }

  StaleSynchronous(const Attributes& values, Communicator* communicator)
      : ServedScheme("ssp", communicator, values, integer_in(values, "slack", 0, 1 << 30, "[scheme ssp]")) {}
};

}  // namespace
D5_REGISTER(schemes, "ssp", StaleSynchronous);
}  // namespace d5
