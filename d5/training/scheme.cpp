// SPDX-License-Identifier: Apache-2.0
#include "d5/training/scheme.hpp"

namespace d5 {

void Step::update(ParameterSet::Range range) { optimizer_.update(range); }

std::unique_ptr<Scheme> make_scheme(const std::string& name, const Attributes& values, Communicator* communicator) {
  const schemes::Entry& entry = registered<schemes>(name);
  return entry.make(complete_values("scheme " + name, entry.parameters, values), communicator);
}

}  // namespace d5
