// SPDX-License-Identifier: Apache-2.0
#include <omp.h>

#include <algorithm>
#include <exception>

#include "d5/core/parallel.hpp"

namespace d5 {

void apply_threads(int n) { omp_set_num_threads(n); }

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  const int64_t ranges = std::min<int64_t>(threads(), count / std::max<int64_t>(grain, 1));
  if (ranges <= 1 || omp_in_parallel()) return body(0, count);
  const int64_t size = count / ranges, longer = count % ranges;  // the first `longer` ranges have one more
  std::exception_ptr error;
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(ranges))
  for (int64_t r = 0; r < ranges; ++r) {
    const int64_t first = r * size + std::min(r, longer);
    try {
      body(first, first + size + (r < longer ? 1 : 0));
    } catch (...) {
#pragma omp critical(d5_parallel_for)
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace d5
