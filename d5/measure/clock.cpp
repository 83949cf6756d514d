// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/clock.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "d5/core/error.hpp"

namespace d5 {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TimerCalibration calibrate_timer() {
  constexpr int blocks = 20, readings = 500;
  double overhead = 1, resolution = 1;
  for (int block = 0; block < blocks; ++block) {
    const double start = now_seconds();
    double last = start;
    for (int i = 0; i < readings; ++i) {
      const double t = now_seconds();
      if (t > last) resolution = std::min(resolution, t - last);
      last = t;
    }
    // The quietest block: an interrupt is not the cost of a reading.
    if (last > start) overhead = std::min(overhead, (last - start) / readings);
  }
  return {overhead, resolution};
}

int64_t iterations_per_sample(double seconds_per_iteration, double relative_width, const TimerCalibration& timer) {
  if (!(seconds_per_iteration > 0) || !(relative_width > 0))
    throw Error("[clock] {} seconds per iteration at relative width {}: both must be positive", seconds_per_iteration,
                relative_width);
  const double needed = std::max(timer.overhead_s, timer.resolution_s) / (relative_width / 4);
  // The small allowance keeps a quotient that is a whole number from being rounded up past it.
  const double iterations = std::ceil(needed / seconds_per_iteration * (1 - 1e-12));
  return static_cast<int64_t>(std::clamp(iterations, 1.0, 1e15));
}

}  // namespace d5
