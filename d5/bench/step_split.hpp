// SPDX-License-Identifier: Apache-2.0
// A step of many samples as several of fewer, on any backend: the network is compiled for the smaller number, every
// part of the batch runs forward and backward in turn, and gradients of parameters are added up where they are. An
// output that is a mean over the batch (a loss) has its gradient divided by the number of parts, so that the sum is the
// gradient of the whole mean; outputs by sample are put together.
//
// So forward runs all parts but the last in both directions, and the last one forward; backward runs the last one. What
// statistics over a batch (BatchNormalization) give is that of a part.
#pragma once

#include "d5/backends/backend.hpp"

namespace d5 {

// `whole` and `part`: the same network with all samples, and with those of one part, which `executable` runs.
std::unique_ptr<Executable> split_step(std::unique_ptr<Executable>, const Graph& whole, const Graph& part, Mode);

// A reason why the results of parts differ from those of the whole by more than rounding; empty: they do not.
std::string depends_on_batch(const Graph&);

}  // namespace d5
