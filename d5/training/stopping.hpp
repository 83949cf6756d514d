// SPDX-License-Identifier: Apache-2.0
// When a training ends: after its epochs at the latest; where a quality is reached; where nothing gets better; where
// its time is up.
#pragma once

#include <string>
#include <vector>

#include "d5/core/shape.hpp"

namespace d5 {

struct StopRules {
  Index epochs = 1;
  Index steps = 0;     // 0: as many as the epochs have
  double target = 0;   // of the test set's quality; 0: none
  double seconds = 0;  // 0: no limit
  Index plateau = 0;   // epochs without a better quality; 0: never
  bool larger_is_better = true;

  bool reached(double quality) const;
  // Of the qualities after each epoch: "target", "plateau", "epochs", or empty: go on.
  std::string after_epoch(const std::vector<double>& qualities) const;
};

}  // namespace d5
