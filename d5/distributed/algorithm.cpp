// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/algorithm.hpp"

#include <cstring>

namespace d5 {

void run_alone(const Operation& op) {
  if (op.collective == Collective::barrier) return;
  const int64_t elements = output_elements(op, 1);
  const auto bytes = static_cast<size_t>(storage_bytes(op.dtype, elements));
  if (bytes > 0 && op.output != op.input && op.input) std::memcpy(op.output, op.input, bytes);
  finish(op, op.output, elements);
}

void run_algorithm(const Algorithm& algorithm, const Operation& op, const Ranks& ranks) {
  if (const auto reason = algorithm.why_not(op, ranks)) throw UsageError("[communicator] {}", *reason);
  if (ranks.size() == 1 && op.collective != Collective::neighbour_exchange)
    run_alone(op);
  else
    algorithm.run(op, ranks);
}

void run_algorithm(std::string_view name, const Operation& op, const Ranks& ranks) {
  run_algorithm(*registered<algorithms>(name), op, ranks);
}

}  // namespace d5
