// SPDX-License-Identifier: Apache-2.0
// Two questions about the shape of a sample: has it more than one mode, and does it drift with time?
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace d5 {

// The dip of Hartigan and Hartigan (1985): the largest distance between the empirical distribution and the nearest
// unimodal one. Between 1/(2n) and 1/4; `sorted` is ascending and not empty.
double dip_statistic(std::span<const double> sorted);

// P(dip of n uniform samples >= dip), from a simulated table; n may be an effective number of samples. Values below
// 0.0001 are returned as 0.0001: the table resolves no less.
double dip_p_value(double dip, double n);

// The dips of simulated samples of n uniform numbers, ascending. Their quantiles are the table of dip_p_value, which
// d5-statistics-coverage --dip-table makes anew.
std::vector<double> simulated_dips(size_t n, size_t repetitions, uint64_t seed);

struct Trend {
  double z;       // standardised, signed: positive where the values grow
  double p;       // two-sided
  double slope;   // Sen's: the median of the slopes between pairs of samples, per sample
  int64_t score;  // Kendall's S: growing pairs minus falling ones
};

// Mann (1945) and Kendall, with ties corrected. O(n log n); beyond 1,000 samples Sen's slope is taken over 1,000 of
// them, evenly spaced.
Trend mann_kendall(std::span<const double> in_time_order);

}  // namespace d5
