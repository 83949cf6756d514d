// SPDX-License-Identifier: Apache-2.0
// Which algorithm for which size, by trying: each one that can, the best of a few runs, the slowest rank counts.
#include <chrono>
#include <limits>

#include "d5/distributed/algorithm.hpp"
#include "d5/distributed/communicator.hpp"

namespace d5 {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

std::string Communicator::fastest(Collective collective, DType dtype, int64_t bytes) {
  constexpr int repeats = 5;
  Operation op{
      .collective = collective, .count = std::max<int64_t>(1, bytes / storage_bytes(dtype, 1)), .dtype = dtype};
  if (total_bytes(op, size()) > 2 * bytes) op.count = std::max<int64_t>(1, op.count / size());  // n blocks are the size
  const auto wide = static_cast<size_t>(std::max(input_elements(op, size()), output_elements(op, size())));
  const auto room = static_cast<size_t>(storage_bytes(dtype, static_cast<int64_t>(wide)));
  const std::vector<std::byte> input(room);
  std::vector<std::byte> output(room);
  op.input = input.data();
  op.output = output.data();
  std::string best;
  double best_time = std::numeric_limits<double>::infinity();
  for (const std::string& name : registry_names(algorithms::kind)) {
    op.algorithm = name;
    // Vectors of zeros would flatter sparse streams.
    if (name == "sparse" || why_not(op)) continue;
    double time = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= repeats; ++i) {
      barrier();
      const double begin = now();
      run(op);
      if (i > 0) time = std::min(time, now() - begin);  // the first one warms up
    }
    double slowest = 0;
    run({.collective = Collective::allreduce,
         .input = &time,
         .output = &slowest,
         .count = 1,
         .dtype = DType::f64,
         .reduction = Reduction::max,
         .algorithm = "recursive_doubling"});
    if (slowest < best_time) {
      best_time = slowest;
      best = name;
    }
  }
  if (best.empty()) throw UsageError("[communicator] no algorithm has {}", d5::name(collective));
  return best;
}

}  // namespace d5
