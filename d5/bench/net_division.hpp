// SPDX-License-Identifier: Apache-2.0
// How convolutions of a network are divided into micro-batches (graph/micro_batch.hpp): every size of every convolution
// is compiled alone and timed, the times are kept in the user's cache ($XDG_CACHE_HOME/d5/micro-batch), and of the
// divisions within a limit on workspace the fastest is taken. That limit is the largest with which the network fits
// into CompileOptions::memory_limit.
#pragma once

#include "d5/backends/backend.hpp"
#include "d5/bench/session.hpp"
#include "d5/graph/micro_batch.hpp"

namespace d5 {

struct NetDivision {
  std::map<std::string, std::vector<Index>> pieces;  // by node; those that stay whole are not here
  std::string why_not;                               // then there are no pieces
  Json report = Json::object();                      // what was chosen, and what of the times was measured anew
};
NetDivision divide_network(const Graph&, Backend&, const CompileOptions&, DType compute, Workspaces);

// Seconds and workspace of a convolution at each size that fits the options' limit; `measured` counts those that were
// not kept. Empty: the backend does not say what workspace its kernels need.
std::optional<std::vector<MeasuredSize>> measured_sizes(const Graph&, const Node&, Backend&, const CompileOptions&,
                                                        DType compute, int& measured);

}  // namespace d5
