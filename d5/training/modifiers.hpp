// SPDX-License-Identifier: Apache-2.0
// What happens to gradients before the rule sees them, in this order; part of the same fused pass:
//   g = gradient_factor * g                                  the mean over micro-batches, ranks; a loss scale taken
//   back g = min(1, clip_norm / |g|) g                            |g| over all parameters g = max(-clip_value,
//   min(clip_value, g)) g = g + weight_decay p                                   where the rule has no weight decay of
//   its own (AdamW, LARS, ...)
// A parameter whose name fits a pattern of no_decay has no weight decay, in the rule's own neither.
#pragma once

#include <string>
#include <vector>

#include "d5/core/parameter_set.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {

class Formula;

struct Modifiers {
  double clip_norm = 0, clip_value = 0;  // 0: none
  double weight_decay = 0;
  std::vector<std::string> no_decay;  // patterns of names with * and ?; "vectors": all of fewer than two axes

  bool excludes(const ParameterSet::Parameter&) const;  // from weight decay
};

// Values that every optimizer has beside its own: clip_norm, clip_value, weight_decay, no_decay ("*bias,bn*"); scaling
// and reference_batch are those of OptimizerSettings (optimizer.hpp).
std::vector<Parameter> modifier_parameters();
Modifiers modifiers_from(const Attributes& values, std::string_view optimizer);  // UsageError on negative ones

// Records them; `decay`: weight decay, too.
void record_modifiers(const Modifiers&, bool decay, Formula&);

}  // namespace d5
