// SPDX-License-Identifier: Apache-2.0
// The same loop with std::thread, for builds under ThreadSanitizer: it sees these threads, but not those of libgomp.
#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "d5/core/parallel.hpp"

namespace d5 {
namespace {
thread_local bool inside = false;  // a loop within a loop runs on the thread it is in
}

void apply_threads(int) {}

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  const int64_t ranges = std::min<int64_t>(threads(), count / std::max<int64_t>(grain, 1));
  if (ranges <= 1 || inside) return body(0, count);
  const int64_t size = count / ranges, longer = count % ranges;  // the first `longer` ranges have one more
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&](int64_t r) {
    const int64_t first = r * size + std::min(r, longer);
    inside = true;
    try {
      body(first, first + size + (r < longer ? 1 : 0));
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!error) error = std::current_exception();
    }
    inside = false;
  };
  {
    std::vector<std::jthread> others;
    for (int64_t r = 1; r < ranges; ++r) others.emplace_back(run, r);
    run(0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace d5
