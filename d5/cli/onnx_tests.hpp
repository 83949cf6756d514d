// SPDX-License-Identifier: Apache-2.0
// d5 net --onnx-tests DIR: a suite of ONNX tests, one record each, and a table of what passed where.
#pragma once

#include <string>
#include <vector>

#include "d5/cli/execute.hpp"

namespace d5 {

// The exit status. UsageError on unknown backends or a folder without tests.
int run_onnx_tests(const std::string& folder, const std::vector<std::string>& backends, const RunFlags&);

}  // namespace d5
