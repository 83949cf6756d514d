// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "d5/core/error.hpp"
#include "d5/measure/distributions.hpp"
#include "d5/measure/draw.hpp"

namespace d5 {
namespace {

constexpr size_t exact_limit = 60;  // values in both samples together

std::map<int, std::vector<double>> by_launch(std::span<const PairedSlices> slices) {
  std::map<int, std::vector<double>> launches;
  for (const PairedSlices& s : slices) {
    if (!std::isfinite(s.log_ratio))
      throw Error("[compare] launch {} block {}: log ratio {}", s.launch, s.block, s.log_ratio);
    launches[s.launch].push_back(s.log_ratio);
  }
  return launches;
}

Verdict judge(const std::optional<Interval>& ratio, double margin) {
  if (!ratio) return Verdict::unclear;
  if (ratio->low >= 1 - margin && ratio->high <= 1 + margin) return Verdict::same;
  if (ratio->high < 1) return Verdict::faster;
  if (ratio->low > 1) return Verdict::slower;
  return Verdict::unclear;
}

void check(double margin, double alpha, size_t comparisons) {
  if (!(margin >= 0 && margin < 1)) throw UsageError("[compare] margin {}; legal: 0 .. 1", margin);
  if (!(alpha > 0 && alpha < 1)) throw UsageError("[compare] alpha {}; legal: 0 .. 1", alpha);
  if (comparisons == 0) throw Error("[compare] 0 comparisons; legal: 1 or more");
}

std::string corrected(size_t comparisons) {
  return comparisons > 1 ? fmt::format(", Bonferroni over {} comparisons", comparisons) : "";
}

std::optional<Interval> exponentials(const std::optional<Interval>& logs) {
  if (!logs) return std::nullopt;
  return Interval{std::exp(logs->low), std::exp(logs->high)};
}

// P(the doubled rank sum of a random choice of `count` of these items = s), by counting the choices one item at a time.
std::vector<double> rank_sum_distribution(const std::vector<size_t>& doubled_ranks, size_t count) {
  const size_t total = std::accumulate(doubled_ranks.begin(), doubled_ranks.end(), size_t{0});
  std::vector<std::vector<double>> ways(count + 1, std::vector<double>(total + 1, 0.0));
  ways[0][0] = 1;
  for (size_t rank : doubled_ranks) {
    for (size_t chosen = count; chosen >= 1; --chosen) {
      for (size_t sum = total; sum >= rank; --sum) ways[chosen][sum] += ways[chosen - 1][sum - rank];
    }
  }
  std::vector<double>& last = ways[count];
  const double all = std::accumulate(last.begin(), last.end(), 0.0);
  for (double& w : last) w /= all;
  return last;
}

// Twice the rank of each pooled value; equal values share the mean of their ranks.
std::vector<size_t> doubled_midranks(const std::vector<double>& sorted_pool) {
  std::vector<size_t> ranks;
  for (size_t i = 0; i < sorted_pool.size();) {
    size_t end = i;
    while (end < sorted_pool.size() && sorted_pool[end] == sorted_pool[i]) ++end;
    ranks.insert(ranks.end(), end - i, i + 1 + end);
    i = end;
  }
  return ranks;
}

double exact_p(const std::vector<double>& pool, size_t count_a, double u) {
  const std::vector<double> distribution = rank_sum_distribution(doubled_midranks(pool), count_a);
  const size_t seen = static_cast<size_t>(std::llround(2 * u)) + count_a * (count_a + 1);
  double below = 0, above = 0;
  for (size_t s = 0; s < distribution.size(); ++s) {
    if (s <= seen) below += distribution[s];
    if (s >= seen) above += distribution[s];
  }
  return std::min(1.0, 2 * std::min(below, above));
}

double normal_p(const std::vector<double>& pool, double na, double nb, double u) {
  const double total = na + nb;
  double ties = 0;
  for (size_t i = 0; i < pool.size();) {
    size_t end = i;
    while (end < pool.size() && pool[end] == pool[i]) ++end;
    const double t = static_cast<double>(end - i);
    ties += t * t * t - t;
    i = end;
  }
  const double variance = na * nb / 12 * (total + 1 - ties / (total * (total - 1)));
  if (variance <= 0) return 1;
  const double away = std::max(0.0, std::abs(u - na * nb / 2) - 0.5);
  return std::min(1.0, 2 * normal_cdf(-away / std::sqrt(variance)));
}

// The largest k with P(U < k) <= tail under no shift: the interval's ends are the k-th differences from either side.
size_t shift_rank(size_t na, size_t nb, double tail) {
  if (na + nb > exact_limit) {
    const double a = static_cast<double>(na), b = static_cast<double>(nb);
    const double k = a * b / 2 + 0.5 + normal_quantile(tail) * std::sqrt(a * b * (a + b + 1) / 12);
    return k < 1 ? 0 : static_cast<size_t>(k);
  }
  std::vector<size_t> ranks(na + nb);
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = 2 * (i + 1);
  const std::vector<double> distribution = rank_sum_distribution(ranks, na);
  double below = 0;
  size_t k = 0;
  for (; k < na * nb; ++k) {
    below += distribution[2 * k + na * (na + 1)];  // P(U <= k)
    if (below > tail * (1 + 1e-12)) break;
  }
  return k;
}

std::vector<double> sorted_differences(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty())
    throw Error("[compare] {} and {} values; legal: at least one of each", a.size(), b.size());
  std::vector<double> differences;
  differences.reserve(a.size() * b.size());
  for (double x : a) {
    for (double y : b) differences.push_back(x - y);
  }
  std::sort(differences.begin(), differences.end());
  return differences;
}

}  // namespace

std::string to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::same: return "same";
    case Verdict::faster: return "faster";
    case Verdict::slower: return "slower";
    case Verdict::unclear: break;
  }
  return "unclear";
}

size_t sign_test_units(double alpha, size_t comparisons) {
  check(0, alpha, comparisons);
  return static_cast<size_t>(std::ceil(1 + std::log2(static_cast<double>(comparisons) / alpha) - 1e-12));
}

size_t sturdy_sign_test_units(double alpha, size_t comparisons) {
  const double each = alpha / static_cast<double>(comparisons);
  size_t n = sign_test_units(alpha, comparisons);
  while (2 * binomial_cdf(1, static_cast<int64_t>(n), 0.5) > each) ++n;
  return n;
}

std::optional<Interval> sign_test_interval(std::vector<double> values, double confidence) {
  std::sort(values.begin(), values.end());
  return quantile_interval(values, 0.5, static_cast<double>(values.size()), confidence);
}

double sign_test(std::span<const double> values) {
  int64_t above = 0, below = 0;
  for (double v : values) {
    above += v > 0;
    below += v < 0;
  }
  return std::min(1.0, 2 * binomial_cdf(std::min(above, below), above + below, 0.5));
}

Comparison compare_paired(std::span<const PairedSlices> slices, double margin, double alpha, size_t comparisons) {
  check(margin, alpha, comparisons);
  if (slices.empty()) throw Error("[compare] no paired slices");
  const auto launches = by_launch(slices);
  std::vector<double> units;
  Comparison result{.verdict = Verdict::unclear};
  if (launches.size() == 1) {
    units = launches.begin()->second;
    result.unit = "round";
    result.note = "within one launch";
  } else {
    for (const auto& [launch, log_ratios] : launches) units.push_back(median(log_ratios));
    result.unit = "launch";
  }
  result.units = units.size();
  result.ratio = std::exp(median(units));
  result.method =
      fmt::format("sign test over {}{}", result.unit == "launch" ? "launches" : "rounds", corrected(comparisons));
  result.p = sign_test(units);
  const size_t needed = sign_test_units(alpha, comparisons);
  if (units.size() < needed) {
    result.note +=
        fmt::format("{}interval n/a: {} {}{}, {} needed", result.note.empty() ? "" : "; ", units.size(), result.unit,
                    units.size() == 1         ? ""
                    : result.unit == "launch" ? "es"
                                              : "s",
                    needed);
    return result;
  }
  result.interval = exponentials(sign_test_interval(units, 1 - alpha / static_cast<double>(comparisons)));
  result.verdict = judge(result.interval, margin);
  return result;
}

Comparison compare_unpaired(std::span<const double> launch_medians_a, std::span<const double> launch_medians_b,
                            double margin, double alpha, size_t comparisons) {
  check(margin, alpha, comparisons);
  const auto logs = [](std::span<const double> times) {
    std::vector<double> result;
    for (double t : times) {
      if (!(t > 0)) throw Error("[compare] a launch median is {}; legal: above 0", t);
      result.push_back(std::log(t));
    }
    return result;
  };
  const std::vector<double> a = logs(launch_medians_a), b = logs(launch_medians_b);
  Comparison result{
      .ratio = std::exp(hodges_lehmann(a, b)),
      .interval = exponentials(hodges_lehmann_interval(a, b, 1 - alpha / static_cast<double>(comparisons))),
      .units = std::min(a.size(), b.size()),
      .unit = "launch",
      .method = "Mann-Whitney, Hodges-Lehmann shift of logs" + corrected(comparisons),
      .p = mann_whitney(a, b).p};
  if (!result.interval) result.note = fmt::format("interval n/a: only {} and {} launches", a.size(), b.size());
  result.verdict = judge(result.interval, margin);
  return result;
}

MannWhitney mann_whitney(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty())
    throw Error("[compare] {} and {} values; legal: at least one of each", a.size(), b.size());
  double u = 0;
  for (double x : a) {
    for (double y : b) u += x > y ? 1 : x == y ? 0.5 : 0;
  }
  std::vector<double> pool(a.begin(), a.end());
  pool.insert(pool.end(), b.begin(), b.end());
  std::sort(pool.begin(), pool.end());
  if (pool.size() <= exact_limit) return {u, exact_p(pool, a.size(), u)};
  return {u, normal_p(pool, static_cast<double>(a.size()), static_cast<double>(b.size()), u)};
}

double hodges_lehmann(std::span<const double> a, std::span<const double> b) {
  return quantile(sorted_differences(a, b), 0.5);
}

std::optional<Interval> hodges_lehmann_interval(std::span<const double> a, std::span<const double> b,
                                                double confidence) {
  const std::vector<double> differences = sorted_differences(a, b);
  const size_t k = shift_rank(a.size(), b.size(), (1 - confidence) / 2);
  if (k == 0) return std::nullopt;
  return Interval{differences[k - 1], differences[differences.size() - k]};
}

std::vector<double> bonferroni(std::span<const double> p_values) {
  std::vector<double> adjusted;
  for (double p : p_values) adjusted.push_back(std::min(1.0, p * static_cast<double>(p_values.size())));
  return adjusted;
}

// Holm (1979): the smallest p is corrected for all, the next for one fewer, and the order is kept.
std::vector<double> holm(std::span<const double> p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return p_values[i] < p_values[j]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    largest = std::max(largest, std::min(1.0, p_values[order[k]] * static_cast<double>(order.size() - k)));
    adjusted[order[k]] = largest;
  }
  return adjusted;
}

std::optional<Interval> hierarchical_bootstrap(std::span<const PairedSlices> slices, uint64_t seed, size_t resamples,
                                               double confidence) {
  std::vector<std::vector<double>> launches;
  for (auto& [launch, log_ratios] : by_launch(slices)) launches.push_back(log_ratios);
  if (launches.size() < sign_test_units(1 - confidence)) return std::nullopt;
  std::mt19937_64 rng(seed);
  std::vector<double> centres;
  for (size_t r = 0; r < resamples; ++r) {
    std::vector<double> medians;
    for (size_t i = 0; i < launches.size(); ++i) {
      const std::vector<double>& launch = launches[draw_below(rng, launches.size())];
      std::vector<double> blocks;
      for (size_t j = 0; j < launch.size(); ++j) blocks.push_back(launch[draw_below(rng, launch.size())]);
      medians.push_back(median(std::move(blocks)));
    }
    centres.push_back(median(std::move(medians)));
  }
  std::sort(centres.begin(), centres.end());
  const double tail = (1 - confidence) / 2;
  return Interval{std::exp(quantile(centres, tail)), std::exp(quantile(centres, 1 - tail))};
}

}  // namespace d5
