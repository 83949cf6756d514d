// SPDX-License-Identifier: Apache-2.0
// A backend with a fault, as a user's file: D5_PLANTED names the node, D5_PLANTED_PASS the pass.
#include <cstdlib>

#include "../unit/networks/planted.hpp"

namespace d5 {
namespace {

const bool planted = [] {
  const char *node = std::getenv("D5_PLANTED"), *pass = std::getenv("D5_PLANTED_PASS");
  PlantedFault::node = node ? node : "";
  PlantedFault::pass = pass && std::string(pass) == "backward" ? Pass::backward : Pass::forward;
  return true;
}();

}  // namespace
D5_REGISTER_KERNEL(reference, "Relu", "planted", PlantedRelu);
D5_REGISTER(backends, "planted", PlantedBackend);
}  // namespace d5
