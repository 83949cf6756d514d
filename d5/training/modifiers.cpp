// SPDX-License-Identifier: Apache-2.0
#include "d5/training/modifiers.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "d5/core/error.hpp"
#include "d5/training/formula.hpp"

namespace d5 {

bool Modifiers::excludes(const ParameterSet::Parameter& parameter) const {
  return std::ranges::any_of(no_decay, [&](const std::string& pattern) {
    if (pattern == "vectors") return parameter.spec.shape.rank() < 2;
    return fnmatch(pattern.c_str(), parameter.name.c_str(), 0) == 0;
  });
}

std::vector<Parameter> modifier_parameters() {
  return {
      {"clip_norm", "gradients are scaled to at most this L2 norm over all parameters; 0: never", 0.0},
      {"clip_value", "gradients are held between minus this and this; 0: never", 0.0},
      {"weight_decay", "decay of parameters: the rule's own where it has one, else added to gradients", 0.0},
      {"no_decay",
       "parameters without weight decay: patterns of names, separated by commas; 'vectors': fewer than two axes",
       std::string()},
      {"scaling", "of learning_rate with the batch of a step, of all ranks: none, linear or sqrt", std::string("none")},
      {"reference_batch", "the batch for which learning_rate was found, with scaling", int64_t{0}}};
}

Modifiers modifiers_from(const Attributes& values, std::string_view optimizer) {
  const auto at_least_0 = [&](const std::string& name) {
    const double value = values.real(name, 0);
    if (!(value >= 0)) throw UsageError("[{}] {} is {}; 0 and more are legal", optimizer, name, value);
    return value;
  };
  Modifiers result{at_least_0("clip_norm"), at_least_0("clip_value"), at_least_0("weight_decay"), {}};
  std::string patterns = values.text("no_decay", "");
  while (!patterns.empty()) {
    const size_t comma = patterns.find(',');
    result.no_decay.push_back(patterns.substr(0, comma));
    patterns = comma == std::string::npos ? "" : patterns.substr(comma + 1);
  }
  return result;
}

void record_modifiers(const Modifiers& modifiers, bool decay, Formula& f) {
  auto [p, g] = f.parameter_and_gradient();
  g = f.scalar("gradient_factor") * g;
  if (modifiers.clip_norm > 0) g = min(1.0, modifiers.clip_norm / f.global_norm(g)) * g;
  if (modifiers.clip_value > 0) g = max(-modifiers.clip_value, min(modifiers.clip_value, g));
  if (decay && modifiers.weight_decay > 0) g = g + f.per_parameter("weight_decay") * p;
  f.replace_gradient(g);
}

}  // namespace d5
