// SPDX-License-Identifier: Apache-2.0
// Do the statistics keep their promises? Simulated samples whose truth is known:
//   coverage      how often the 95 % interval of the median holds the true median
//   false alarms  how often A against A is called different
//   power         how often a planted slowdown of 2 % is called slower
// Every limit is printed beside its number; exit 1 if one is missed. Seeds are fixed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <random>

#include "d5/core/error.hpp"
#include "d5/measure/comparison.hpp"
#include "d5/measure/distributions.hpp"
#include "d5/measure/draw.hpp"
#include "d5/measure/quantile.hpp"
#include "d5/measure/shape_tests.hpp"
#include "d5/measure/stopping.hpp"
#include "d5/report/jsonl.hpp"
#include "d5/report/verdicts.hpp"

namespace {

using namespace d5;

struct Options {
  uint64_t seed = 20261115;
  size_t simulations = 4000;
  size_t launches = 9;  // the program's own defaults: nine launches, four rounds, so two ABBA blocks
  size_t rounds = 2;
  std::string noise;
  bool dip_table = false;
};

class Limits {
 public:
  const char* within(double value, double low, double high) {
    const bool kept = value >= low && value <= high;
    missed_ += !kept;
    return kept ? "kept" : "MISSED";
  }
  int missed() const { return missed_; }

 private:
  int missed_ = 0;
};

// ---- coverage -------------------------------------------------------------------------------------------------------

// Times made from an AR(1) series of normal scores, so that marginal distribution and dependence are set apart.
class Series {
 public:
  Series(bool bimodal, double rho, double spread, std::mt19937_64& rng)
      : bimodal_(bimodal), rho_(rho), spread_(spread), rng_(rng), score_(normal_(rng)) {}

  double next() {
    const double time = from_score(score_);
    score_ = rho_ * score_ + std::sqrt(1 - rho_ * rho_) * normal_(rng_);
    return time;
  }
  double true_median() const { return from_score(0); }

 private:
  // Lognormal, or two humps with 60 % of the samples around 1 and 40 % around 1.2.
  double from_score(double score) const {
    if (!bimodal_) return std::exp(spread_ * score);
    const double u = normal_cdf(score);
    return u < 0.6 ? 1 + spread_ * (u / 0.6 - 0.5) : 1.2 + spread_ * ((u - 0.6) / 0.4 - 0.5);
  }

  bool bimodal_;
  double rho_, spread_;
  std::mt19937_64& rng_;
  std::normal_distribution<double> normal_;
  double score_;
};

// The indicator 1{x <= median} of a Gaussian AR(1) series has rho_k = 2/pi asin(rho^k) (Sheppard, 1899).
double true_inflation(double rho) {
  double sum = 1;
  for (double power = rho; power > 1e-9; power *= rho) sum += 2 * 2 / std::numbers::pi * std::asin(power);
  return sum;
}

struct Tally {
  size_t runs = 0, given = 0, covered = 0, samples = 0;
  void add(const std::vector<double>& sample, double truth) {
    std::vector<double> sorted = sample;
    std::sort(sorted.begin(), sorted.end());
    const auto interval = quantile_interval(sorted, 0.5, effective_samples(sample));
    ++runs;
    samples += sample.size();
    given += interval.has_value();
    covered += interval && interval->low <= truth && truth <= interval->high;
  }
  double coverage() const { return given == 0 ? 0 : 100.0 * static_cast<double>(covered) / static_cast<double>(given); }
  double missing() const { return 100.0 * static_cast<double>(runs - given) / static_cast<double>(runs); }
  double mean_samples() const { return static_cast<double>(samples) / static_cast<double>(runs); }
};

void coverage(const Options& options, Limits& limits) {
  constexpr double least = 94, most = 98.5, enough = 30;
  fmt::print("Coverage of the 95 % interval of the median, {} simulations a row (standard error about {:.1f} %)\n",
             options.simulations, 100 * std::sqrt(0.05 * 0.95 / static_cast<double>(options.simulations)));
  fmt::print("limit: {} .. {} % where the series holds at least {} effective samples\n", least, most, enough);
  fmt::print("{:<10} {:>4} {:>22} {:>8} {:>11} {:>7} {:>10}  limit\n", "samples", "rho", "stopping", "n", "true n_eff",
             "n/a", "coverage");
  uint64_t row = 0;
  for (const bool bimodal : {false, true}) {
    for (const double rho : {0.0, 0.3, 0.5, 0.7, 0.9}) {
      const char* name = bimodal ? "bimodal" : "lognormal";
      for (const size_t n : {40, 160, 640, 2560}) {
        std::mt19937_64 rng(options.seed + ++row);
        Tally tally;
        std::vector<double> sample(n);
        for (size_t s = 0; s < options.simulations; ++s) {
          Series series(bimodal, rho, 0.05, rng);
          for (double& x : sample) x = series.next();
          tally.add(sample, series.true_median());
        }
        const double n_eff = static_cast<double>(n) / true_inflation(rho);
        fmt::print("{:<10} {:>4.1f} {:>22} {:>8} {:>11.0f} {:>5.1f} % {:>8.1f} %  {}\n", name, rho, "fixed", n, n_eff,
                   tally.missing(), tally.coverage(),
                   n_eff < enough ? "- (too few)" : limits.within(tally.coverage(), least, most));
      }
      for (const double spread : {0.01, 0.02, 0.05}) {
        std::mt19937_64 rng(options.seed + ++row);
        Tally tally;
        for (size_t s = 0; s < options.simulations; ++s) {
          Series series(bimodal, rho, spread, rng);
          const auto rule = make_stopping_rule("interval", {});
          std::vector<double> sample;
          rule->reset();
          while (!rule->done()) {
            sample.push_back(series.next());
            rule->add(sample.back());
          }
          tally.add(sample, series.true_median());
        }
        fmt::print("{:<10} {:>4.1f} {:>22} {:>8.0f} {:>11.0f} {:>5.1f} % {:>8.1f} %  {}\n", name, rho,
                   fmt::format("1 %, spread {:.0f} %", 100 * spread), tally.mean_samples(),
                   tally.mean_samples() / true_inflation(rho), tally.missing(), tally.coverage(),
                   limits.within(tally.coverage(), least, most));
      }
    }
  }
}

// ---- comparisons ----------------------------------------------------------------------------------------------------

// Relative noise of one child: fixed by its launch, of one slice (Student's t with 3 degrees of freedom: heavy tails),
// and a drift of the machine that both children of a round share.
struct Noise {
  double launch, slice;
};

std::vector<PairedSlices> simulate(const Noise& noise, double slowdown, size_t launches, size_t rounds,
                                   std::mt19937_64& rng) {
  std::normal_distribution<double> normal;
  std::student_t_distribution<double> heavy(3);
  std::vector<PairedSlices> slices;
  for (size_t l = 0; l < launches; ++l) {
    const double a = std::log(slowdown) + noise.launch * normal(rng), b = noise.launch * normal(rng);
    double drift = 0;
    for (size_t r = 0; r < rounds; ++r) {
      const double log_a = drift + a + noise.slice * heavy(rng);
      drift += 0.1 * noise.slice * normal(rng);
      const double log_b = drift + b + noise.slice * heavy(rng);
      slices.push_back({static_cast<int>(l), static_cast<int>(r), log_a - log_b});
    }
  }
  return slices;
}

bool different(const Comparison& c) { return c.verdict == Verdict::faster || c.verdict == Verdict::slower; }

std::vector<double> launch_medians(const std::vector<PairedSlices>& slices) {
  std::map<int, std::vector<double>> launches;
  for (const PairedSlices& s : slices) launches[s.launch].push_back(s.log_ratio);
  std::vector<double> medians;
  for (const auto& [launch, values] : launches) medians.push_back(std::exp(median(values)));
  return medians;
}

void false_alarms(const Options& options, Limits& limits) {
  // The sign test of 9 launches errs in 3.9 % of comparisons, so 5 % leaves room for the noise of the simulation.
  fmt::print("\nA against A, {} comparisons a row, {} launches, {} blocks; limit: at most 5 % called different\n",
             options.simulations, options.launches, options.rounds);
  fmt::print("{:>8} {:>8} {:>22} {:>10} {:>10}  {:<7} {:>22}\n", "launch", "slice", "method", "different", "same",
             "limit", "one launch, for show");
  uint64_t row = 1000;
  for (const Noise& noise : {Noise{0, 0.005}, Noise{0.0025, 0.005}, Noise{0.005, 0.01}, Noise{0.01, 0.02}}) {
    std::mt19937_64 rng(options.seed + ++row);
    size_t paired = 0, same = 0, unpaired = 0, unpaired_same = 0, single = 0;
    for (size_t s = 0; s < options.simulations; ++s) {
      const auto slices = simulate(noise, 1, options.launches, options.rounds, rng);
      const Comparison c = compare_paired(slices);
      paired += different(c);
      same += c.verdict == Verdict::same;
      single += different(compare_paired(std::span(slices).first(options.rounds)));
      const auto other = simulate(noise, 1, options.launches, options.rounds, rng);
      const Comparison u = compare_unpaired(launch_medians(slices), launch_medians(other));
      unpaired += different(u);
      unpaired_same += u.verdict == Verdict::same;
    }
    const auto percent = [&](size_t count) {
      return 100.0 * static_cast<double>(count) / static_cast<double>(options.simulations);
    };
    fmt::print("{:>6.2f} % {:>6.2f} % {:>22} {:>8.1f} % {:>8.1f} %  {:<7} {:>20.1f} %\n", 100 * noise.launch,
               100 * noise.slice, "sign test, paired", percent(paired), percent(same),
               limits.within(percent(paired), 0, 5), percent(single));
    fmt::print("{:>6.2f} % {:>6.2f} % {:>22} {:>8.1f} % {:>8.1f} %  {}\n", 100 * noise.launch, 100 * noise.slice,
               "Mann-Whitney, unpaired", percent(unpaired), percent(unpaired_same),
               limits.within(percent(unpaired), 0, 5));
  }
}

void power(const Options& options, Limits& limits) {
  // Together 0.5 % for the log ratio of a launch, which is what d5-self-check saw on a shared virtual machine.
  constexpr double stated_launch = 0.001, stated_slice = 0.005;
  fmt::print(
      "\nA slowdown of 2 %, called slower, {} comparisons a cell; limit: at least 95 % with 9 launches x 2 blocks"
      " at launch noise {:.1f} %, slice noise {:.1f} %\n",
      options.simulations, 100 * stated_launch, 100 * stated_slice);
  fmt::print("{:>8} {:>8} {:>7}", "launch", "slice", "blocks");
  for (const int launches : {6, 9, 12, 20}) fmt::print(" {:>11}", fmt::format("{} launches", launches));
  fmt::print("\n");
  uint64_t row = 2000;
  for (const Noise& noise :
       {Noise{stated_launch, stated_slice}, Noise{0.003, 0.01}, Noise{0.005, 0.01}, Noise{0.01, 0.02}}) {
    for (const size_t rounds : {2, 5, 10}) {
      fmt::print("{:>6.2f} % {:>6.2f} % {:>7}", 100 * noise.launch, 100 * noise.slice, rounds);
      std::string verdict;
      for (const size_t launches : {6, 9, 12, 20}) {
        std::mt19937_64 rng(options.seed + ++row);
        size_t slower = 0;
        for (size_t s = 0; s < options.simulations; ++s) {
          slower += compare_paired(simulate(noise, 1.02, launches, rounds, rng)).verdict == Verdict::slower;
        }
        const double percent = 100.0 * static_cast<double>(slower) / static_cast<double>(options.simulations);
        fmt::print(" {:>9.1f} %", percent);
        if (noise.launch == stated_launch && rounds == 2 && launches == 9) verdict = limits.within(percent, 95, 100);
      }
      fmt::print("  {}\n", verdict);
    }
  }
}

// ---- recorded noise -------------------------------------------------------------------------------------------------

// The log ratios of the blocks of one launch: two records of one case that ran interleaved, so machine and moment are
// the same for both.
using Launch = std::vector<double>;

// By case, the launches of all groups in which it was compared with itself.
std::map<std::string, std::vector<Launch>> read_noise(const std::string& path) {
  const RecordFile file = read_records(path);
  std::map<std::string, std::vector<Launch>> cases;
  for (size_t i = 0; i + 1 < file.records.size(); ++i) {
    const Record &a = file.records[i], &b = file.records[i + 1];
    if (a.group.empty() || a.group != b.group || a.fields != b.fields || a.samples.launch.empty()) continue;
    std::map<int, Launch> launches;
    for (const PairedSlices& slice : paired_slices(b, a, true)) launches[slice.launch].push_back(slice.log_ratio);
    for (auto& [number, launch] : launches) cases[a.rerun].push_back(std::move(launch));
  }
  return cases;
}

// Launches are drawn from the recorded ones, each with a random sign, because it is chance who was called A: A against
// A, and A against a B that is 2 % slower, with real noise.
void recorded_noise(const Options& options, Limits& limits) {
  fmt::print("\nWith the noise of {}: {} comparisons a case, {} launches\n", options.noise, options.simulations,
             options.launches);
  fmt::print("limits: A against A at most 5 % different, a slowdown of 2 % found in at least 95 %\n\n");
  fmt::print("{:>9} {:>12} {:>9} {:>7}\n", "different", "2 % found", "recorded", "noise");
  size_t used = 0;
  for (const auto& [name, recorded] : read_noise(options.noise)) {
    if (recorded.size() < 2 * options.launches) {
      fmt::print("n/a: {} launches, {} needed   {}\n", recorded.size(), 2 * options.launches, name);
      continue;
    }
    std::mt19937_64 rng(options.seed + 3000 + used++);
    size_t alarms = 0, found = 0;
    std::vector<size_t> order(recorded.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (size_t s = 0; s < options.simulations; ++s) {
      draw_order(rng, order);
      std::vector<PairedSlices> slices;
      for (size_t l = 0; l < options.launches; ++l) {
        const double sign = draw_below(rng, 2) == 0 ? 1 : -1;
        for (const double d : recorded[order[l]])
          slices.push_back({static_cast<int>(l), static_cast<int>(slices.size()), sign * d});
      }
      alarms += different(compare_paired(slices));
      for (PairedSlices& slice : slices) slice.log_ratio += std::log(1.02);
      found += compare_paired(slices).verdict == Verdict::slower;
    }
    double squares = 0;
    for (const Launch& launch : recorded) squares += std::pow(median(launch), 2) / static_cast<double>(recorded.size());
    const double all = static_cast<double>(options.simulations);
    const double different_percent = 100 * static_cast<double>(alarms) / all,
                 found_percent = 100 * static_cast<double>(found) / all;
    fmt::print("{:>7.1f} % {:>10.1f} % {:>9} {:>5.2f} %  {} {}  {}\n", different_percent, found_percent,
               recorded.size(), 100 * std::sqrt(squares), limits.within(different_percent, 0, 5),
               limits.within(found_percent, 95, 100), name);
  }
  if (used == 0)
    throw UsageError("[noise] '{}': no case has {} launches against itself", options.noise, 2 * options.launches);
}

// ---- the table of the dip test --------------------------------------------------------------------------------------

void print_dip_table() {
  fmt::print("// rows: n; columns: probability\n");
  for (const size_t n : {4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000, 10000}) {
    const size_t repetitions = std::clamp<size_t>(500'000'000 / n, 50'000, 400'000);
    const std::vector<double> dips = simulated_dips(n, repetitions, n);
    fmt::print("/* {:>5} */ {{", n);
    for (const double p : {0.1, 0.5, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999}) {
      fmt::print("{:.6f}{}", quantile(dips, p), p < 0.9999 ? ", " : "},\n");
    }
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Coverage, false alarms and power of the statistics of deep500, by simulation. Exit 1: a limit is missed."};
  Options options;
  std::vector<std::string> parts = {"coverage", "false-alarms", "power"};
  app.add_option("--part", parts, "coverage, false-alarms, power (default: all)")
      ->check(CLI::IsMember({"coverage", "false-alarms", "power"}))
      ->delimiter(',');
  app.add_option("--simulations", options.simulations, "simulations a row")
      ->check(CLI::Range(1000, 10'000'000))
      ->capture_default_str();
  app.add_option("--launches", options.launches, "launches of each child, for false alarms")
      ->check(CLI::Range(6, 1000))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "ABBA blocks in a launch, for false alarms")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of all simulations")->capture_default_str();
  app.add_option("--noise", options.noise,
                 "records.jsonl (of d5-self-check -o) whose launches are drawn as A and B: false alarms and power with "
                 "real noise");
  app.add_flag("--dip-table", options.dip_table,
               "print the null quantiles of the dip, as in d5/measure/dip_table.hpp (minutes)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    if (options.dip_table) {
      print_dip_table();
      return 0;
    }
    Limits limits;
    const auto asked = [&](const char* part) { return std::find(parts.begin(), parts.end(), part) != parts.end(); };
    if (!options.noise.empty()) recorded_noise(options, limits);
    if (options.noise.empty() && asked("coverage")) coverage(options, limits);
    if (options.noise.empty() && asked("false-alarms")) false_alarms(options, limits);
    if (options.noise.empty() && asked("power")) power(options, limits);
    fmt::print("\n{} limits missed\n", limits.missed());
    return limits.missed() == 0 ? 0 : 1;
  } catch (const UsageError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
