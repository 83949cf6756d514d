// SPDX-License-Identifier: Apache-2.0
#include "d5/core/version.hpp"

namespace d5 {

std::string version() { return D5_VERSION; }

}  // namespace d5
