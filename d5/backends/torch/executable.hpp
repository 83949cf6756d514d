// SPDX-License-Identifier: Apache-2.0
// A graph run eagerly: each node is one function on at::Tensors, gradients are torch's own autograd.
#pragma once

#include <memory>

#include "d5/backends/backend.hpp"
#include "d5/backends/torch/operator_table.hpp"

namespace d5::libtorch {

// Why a node of the graph cannot run, or empty.
std::optional<std::string> why_not_graph(const Graph&, const CompileOptions&, at::Device);
std::unique_ptr<Executable> make_executable(const Graph&, ParameterSet&, const CompileOptions&, at::Device);

}  // namespace d5::libtorch
