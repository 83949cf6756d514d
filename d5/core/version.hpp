// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace d5 {

std::string version();  // "0.1.0"

}  // namespace d5
