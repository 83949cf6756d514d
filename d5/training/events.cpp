// SPDX-License-Identifier: Apache-2.0
#include "d5/training/events.hpp"

#include <array>

namespace d5 {

std::string name(TrainingEvent event) {
  static constexpr std::array names{"training", "epoch",   "training_set", "test_set",       "batch",
                                    "sampling", "forward", "backward",     "optimizer_step", "checkpoint"};
  return names[static_cast<size_t>(event)];
}

}  // namespace d5
