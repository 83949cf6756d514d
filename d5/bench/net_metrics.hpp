// SPDX-License-Identifier: Apache-2.0
// What the record of a network holds beside the usual metrics:
//   throughput          samples/s   batch / median time
//   latency_p50 p90 p99 s           quantiles of the time of one step, over all samples
//   memory_planned      B           what the executable has laid out, and the parameters
//   memory_peak         B           growth of the resident set, from before compiling to the end of the first step
//   energy_per_sample   J           of the processor packages, or of the GPU
// Where one is not known its value is not a number, and details.unavailable says why: a quantile whose interval does
// not exist, for example.
#pragma once

#include "d5/bench/session.hpp"

namespace d5 {

void add_net_metrics(const CaseResult&, Record&);

// The fewest independent samples that have a two-sided 95 % interval of quantile p: 6 for the median, 368 for p99.
int64_t samples_for_quantile(double p);

}  // namespace d5
