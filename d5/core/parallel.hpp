// SPDX-License-Identifier: Apache-2.0
// One policy for thread counts: a process has one number of threads, set once and early; our loops, OpenMP and every
// backend use that number. Nobody else starts compute threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace d5 {

int usable_cores();       // the affinity mask and the cgroup's quota, not the machine's count
int threads();            // the process's number; default: usable_cores()
void set_threads(int n);  // Error unless 1 <= n; backends read threads() when they compile

// The environment a child needs before exec so that every runtime in it agrees (OMP_*, OPENBLAS_*, MKL_*, ...).
std::vector<std::pair<std::string, std::string>> thread_environment(int n);
// The cores a process of n threads is pinned to: n of the usable ones, one per physical core first, the last ones first
// because the kernel's own work gathers on the first. All usable ones where n is larger.
std::vector<int> cores_for(int n);

// Calls body(first, last) for disjoint ranges that cover [0, count), on threads() threads. No order is promised; a
// range is at least `grain` long (all of [0, count) where that is shorter). Within a body it runs on the thread it is
// in. The first exception of a body reaches the caller, after every body has ended.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

void apply_threads(int n);  // tells the runtime behind parallel_for; for set_threads alone

}  // namespace d5
