// SPDX-License-Identifier: Apache-2.0
// Is a data set, or what a sampler takes of it, balanced? The number of samples of each class, and Pearson's test that
// all classes are equally likely:  chi2 = sum (n_k - n / K)^2 / (n / K),  p = P(chi-square with K - 1 degrees >= chi2).
#pragma once

#include <vector>

#include "d5/core/shape.hpp"

namespace d5 {

struct ClassBias {
  std::vector<Index> counts;
  double chi_square = 0, p = 1;
  double largest_share = 0;  // of the most frequent class
};
ClassBias class_bias(std::vector<Index> counts);  // Error with fewer than two classes or no samples

}  // namespace d5
