// SPDX-License-Identifier: Apache-2.0
// Asynchronous SGD (Downpour; Dean et al., 2012): servers step with every rank's gradients as they come; a rank goes on
// with the parameters of that moment and waits for nobody. An epoch has n times the updates of dsgd, each of a rank's
// own batch.
//   server:  p = update(p, g_r)      rank r: p of the servers
#include "d5/distributed/parameter_server.hpp"

namespace d5 {
namespace {

class AsynchronousSgd final : public ServedScheme {
 public:
  static constexpr const char* about = "asynchronous: servers step with each rank's gradients as they come";
  static std::vector<Parameter> parameters() { return {servers_parameter()}; }

  AsynchronousSgd(const Attributes& values, Communicator* communicator)
      : ServedScheme("asgd", communicator, values, -1) {}
};

}  // namespace
D5_REGISTER(schemes, "asgd", AsynchronousSgd);
}  // namespace d5
