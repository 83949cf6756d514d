// SPDX-License-Identifier: Apache-2.0
// The host's clock, what reading it costs, and how many iterations one sample must hold so that the clock does not
// matter.
#pragma once

#include <cstdint>

namespace d5 {

double now_seconds();  // steady_clock; only differences have a meaning

struct TimerCalibration {
  double overhead_s;    // one reading of the clock
  double resolution_s;  // the smallest step it was seen to make
};
TimerCalibration calibrate_timer();  // takes about a millisecond

// The smallest number of iterations for which overhead and resolution are each at most relative_width / 4 of the
// sample. Above 1 the samples are batched: no percentiles of single iterations. Error unless both numbers are positive.
int64_t iterations_per_sample(double seconds_per_iteration, double relative_width, const TimerCalibration&);

}  // namespace d5
