// SPDX-License-Identifier: Apache-2.0
// The cases by which an operator is judged: those of its file (Operator::cases), for each element type and pass.
#pragma once

#include <string>
#include <vector>

#include "d5/bench/session.hpp"

namespace d5 {

const std::vector<std::string>& conformance_dtypes();

struct ConformanceCell {
  std::string op, dtype, pass;
};
// Every operator x element type x pass; integers have no backward.
std::vector<ConformanceCell> conformance_cells(const std::vector<std::string>& operators);

// The complete cases of a cell, in the given layouts. Those that ONNX does not define (Conv of integers) are left out.
// Error where an operator of a user has cases that are none, or crashes on the way.
std::vector<Json> conformance_cases(const ConformanceCell&, const std::string& backend, const std::string& device,
                                    const std::vector<std::string>& layouts, int threads);

}  // namespace d5
