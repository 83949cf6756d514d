// SPDX-License-Identifier: Apache-2.0
// Graphs whose shapes depend on values, or whose values are no tensors of numbers: forward alone, by
// graph/evaluate.hpp.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "d5/backends/backend.hpp"
#include "d5/graph/evaluate.hpp"

namespace d5 {

std::optional<std::string> why_not_evaluated(const Graph&, const CompileOptions&, const std::string& why_evaluated);
std::unique_ptr<Executable> compile_evaluation(const Graph&, ParameterSet&, const CompileOptions&);

}  // namespace d5
