// SPDX-License-Identifier: Apache-2.0
// The communicator's own library does it, by whichever algorithm it likes best.
#include "d5/distributed/algorithm.hpp"

namespace d5 {
namespace {

class Library final : public Algorithm {
 public:
  std::string about() const override { return "the communicator's library, as it likes best"; }
  std::optional<std::string> why_not(const Operation& op, const Ranks& ranks) const override {
    if (ranks.size() != ranks.transport().size()) return "the library knows all ranks alone, not some of them";
    return ranks.transport().why_no_library(op);
  }
  void run(const Operation& op, const Ranks& ranks) const override { ranks.transport().run_library(op); }
};

}  // namespace
D5_REGISTER(algorithms, "library", Library);
}  // namespace d5
