// SPDX-License-Identifier: Apache-2.0
// Random data for a network, so that it can run where no dataset is at hand. As with parameters, a value depends on the
// input's name, its place and the seed alone.
#pragma once

#include <map>
#include <string>

#include "d5/graph/graph.hpp"

namespace d5 {

// For every input that is no parameter. Floats are normal with deviation 1 (targets: uniform in [0, 1)). Integers are
// below what they choose from: rows of an embedding, classes of a loss; where nobody tells, 0 or 1.
std::map<std::string, Tensor> sample_inputs(const Graph&, uint64_t seed);

}  // namespace d5
