// SPDX-License-Identifier: Apache-2.0
// The classes of a data set: which field says them, how many samples each has.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "d5/datasets/dataset.hpp"

namespace d5 {

// The field that has classes, a million at most, and one value a sample; or none.
std::optional<size_t> class_field(const std::vector<Field>&);
// Adds the labels of a batch of that field. SampleError on one that is out of range.
void count_classes(const Tensor& labels, std::span<Index> counts);

// A weight for each sample, with which every class that has samples is drawn equally often: 1 / samples of its class.
// Reads the whole set; what cannot be read has the weight 0. UsageError where there are no classes.
std::vector<double> balancing_weights(const Dataset&);

}  // namespace d5
