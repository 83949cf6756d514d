// SPDX-License-Identifier: Apache-2.0
// Is A faster or slower than B? Ratios are t_A / t_B: above 1, A is slower. The launch is the unit of inference: no
// number of rounds removes what a launch fixed (addresses, pages, threads).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "d5/measure/quantile.hpp"

namespace d5 {

// Tried in this order: same (the interval lies inside 1 +- margin), faster or slower (it excludes 1), unclear.
enum class Verdict { same, faster, slower, unclear };
std::string to_string(Verdict verdict);

struct Comparison {
  double ratio;
  std::optional<Interval> interval;  // of the ratio, at confidence 1 - alpha / comparisons; empty: too few units
  Verdict verdict;
  size_t units;
  std::string unit;  // launch | round
  std::string method;
  std::string note;
  double p = 1;  // two-sided, of ratio = 1, not corrected for several comparisons
};

// ln t_A - ln t_B of the medians of two slices that ran in the same round (or ABBA block) of the same launch.
struct PairedSlices {
  int launch;
  int block;
  double log_ratio;
};

// Within one run: the median of the launches' medians with the exact sign-test interval over launches. With one launch
// the blocks are the units and the note says so. `comparisons` in one table are corrected by Bonferroni.
Comparison compare_paired(std::span<const PairedSlices> slices, double margin = 0.01, double alpha = 0.05,
                          size_t comparisons = 1);

// Between result files: the Hodges-Lehmann shift of the logs of the launch medians with the interval that inverts the
// Mann-Whitney test. Launches are taken as independent.
Comparison compare_unpaired(std::span<const double> launch_medians_a, std::span<const double> launch_medians_b,
                            double margin = 0.01, double alpha = 0.05, size_t comparisons = 1);

// How many units a sign-test interval needs: ceil(1 + log2(comparisons / alpha)).
size_t sign_test_units(double alpha, size_t comparisons = 1);
// Enough that the interval still leaves out the smallest and the largest unit: one launch that was disturbed then does
// not decide the verdict. 9 at alpha = 0.05.
size_t sturdy_sign_test_units(double alpha, size_t comparisons = 1);
std::optional<Interval> sign_test_interval(std::vector<double> values, double confidence = 0.95);
double sign_test(std::span<const double> values);  // two-sided p of median 0; zeros are dropped

struct MannWhitney {
  double u;  // pairs with a > b, ties counting half
  double p;  // two-sided; the exact permutation distribution (ties included) up to 60 values, else normal
};
MannWhitney mann_whitney(std::span<const double> a, std::span<const double> b);

// Median of all a_i - b_j, and the interval of the shift.
double hodges_lehmann(std::span<const double> a, std::span<const double> b);
std::optional<Interval> hodges_lehmann_interval(std::span<const double> a, std::span<const double> b,
                                                double confidence = 0.95);

// p-values corrected for being several, in the order given.
std::vector<double> bonferroni(std::span<const double> p_values);
std::vector<double> holm(std::span<const double> p_values);

// The alternative to the sign test: launches are drawn with replacement, then blocks within each; percentiles of the
// median of medians, as an interval of the ratio. Approximate where the sign test is exact. Empty where fewer launches
// are given than the sign test needs.
std::optional<Interval> hierarchical_bootstrap(std::span<const PairedSlices> slices, uint64_t seed,
                                               size_t resamples = 2000, double confidence = 0.95);

}  // namespace d5
