// SPDX-License-Identifier: Apache-2.0
// A convolution whose batch was divided (graph/micro_batch.hpp) as one step: the pieces lie in the whole input and the
// whole result already, so neither Split nor Concat moves anything. Private to compile_kernels.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "d5/backends/kernel.hpp"

namespace d5 {

struct JoinedPieces {
  Graph graph;                                       // every Split, Conv, ..., Conv, Concat is a Conv again
  std::map<std::string, std::vector<Index>> pieces;  // by the name of that Conv
  CompileOptions options;                            // what the user has divided is divided no further
};
// Where somebody wants to read a piece alone nothing is joined.
JoinedPieces join_pieces(const Graph&, const CompileOptions&);

// Nodes with pieces get a kernel that calls one of the kernels that `find` gives for each piece. The workspaces of
// pieces lie side by side; scratch memory is that of the largest.
FindKernel piecewise_finder(const FindKernel& find, const std::map<std::string, std::vector<Index>>& pieces);

}  // namespace d5
