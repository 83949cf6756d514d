// SPDX-License-Identifier: Apache-2.0
#include "overhead.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>

#include "d5/core/parallel.hpp"
#include "d5/core/rng.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/comparison.hpp"
#include "d5/measure/quantile.hpp"
#include "d5/recipe/suite.hpp"

namespace d5 {
namespace {

struct Plan {
  std::vector<std::string> suites, sets{"training"}, passes{"forward", "backward"};
  std::string only;  // cases whose label holds this
  int repetitions = 8, blocks = 7;
  double slice_seconds = 0.005, case_seconds = 6, least_seconds = 5e-5, most_seconds = 0.5;
};

class Wrapped {
 public:
  Wrapped(const OverheadCase& c, const OperatorCase& one, Backend& backend) : pass_(c.pass), backend_(backend) {
    CompileOptions options;
    options.mode = c.pass == Pass::backward ? Mode::training : Mode::inference;
    options.input_gradients = c.pass == Pass::backward;
    options.gradients_in_set = false;  // as in the library's own programs
    const Graph graph = single_node_graph(c.op, one);
    if (auto reason = backend.why_not(graph, options)) throw Error("[overhead] {}: {}", c.label(), *reason);
    executable_ = backend.compile(graph, parameters_, options);
    for (size_t i = 0; i < one.inputs.size(); ++i)
      if (one.inputs[i].spec.present) fill(Executable::Role::value, fmt::format("x{}", i), one.inputs[i].spec);
    if (c.pass == Pass::backward)
      fill(Executable::Role::gradient, "y0", registered<operators>(c.op).make(one.attributes)->infer(one.specs())[0]);
    executable_->forward({});
  }

  void run() {
    pass_ == Pass::forward ? executable_->forward({}) : executable_->backward({});
    backend_.synchronize();
  }
  std::string implementation() const {  // "forward A; backward B + C": the part of the pass
    const std::string all = executable_->kernels()[0].second;
    const size_t split = all.find("; backward ");
    if (!all.starts_with("forward ")) return all;
    return pass_ == Pass::forward ? all.substr(8, split == std::string::npos ? split : split - 8)
                                  : all.substr(split + 11);
  }

 private:
  void fill(Executable::Role role, const std::string& name, const TensorSpec& spec) {
    const Tensor tensor(spec.dtype, spec.shape);
    fill_periodically(tensor, stream_of(name));
    executable_->write(role, name, tensor);
  }
  Pass pass_;
  Backend& backend_;
  ParameterSet parameters_;
  std::unique_ptr<Executable> executable_;
};

// The median of single iterations, so that being interrupted now and then does not count.
template <class Side>
double seconds_per_iteration(Side& side, int64_t iterations) {
  if (iterations > 1) side.run();  // unrecorded: the other side's data is in the caches
  std::vector<double> seconds;
  for (int64_t i = 0; i < iterations; ++i) {
    const double begin = now_seconds();
    side.run();
    seconds.push_back(now_seconds() - begin);
  }
  return median(std::move(seconds));
}

struct Measured {
  std::optional<Comparison> comparison;  // empty: outside the range of times
  double seconds = 0, flops = 0;
};

Measured measure(const OverheadCase& c, Backend& backend, const OverheadProgram& program, const Plan& plan) {
  const OperatorEntry& entry = registered<operators>(c.op);
  const OperatorCase one = entry.describe(complete_values(c.op, entry, c.values), DType::f32);
  const double flops = entry.make(one.attributes)->cost(one.specs(), c.pass).flops;
  const Rng rng(11, stream_of(c.label()));
  std::vector<std::unique_ptr<Buffer>> shifts;  // kept, so that each repetition gets other addresses
  std::vector<PairedSlices> slices;
  std::vector<double> seconds;
  for (int repetition = 0; repetition < plan.repetitions; ++repetition) {
    shifts.push_back(std::make_unique<Buffer>(host_memory(), 64 * (1 + rng.below(repetition, 4096))));
    std::unique_ptr<Wrapped> wrapped;
    std::unique_ptr<Direct> direct;
    if (repetition % 2) wrapped = std::make_unique<Wrapped>(c, one, backend);
    direct = program.direct(c, one);
    if (!wrapped) {
      direct->run();
      const double once = seconds_per_iteration(*direct, 1);
      if (once < plan.least_seconds || once > plan.most_seconds) return {{}, once, flops};
      wrapped = std::make_unique<Wrapped>(c, one, backend);
    }
    if (!direct->is(wrapped->implementation()))
      throw Error("[overhead] {}: d5 runs '{}', the direct side '{}'", c.label(), wrapped->implementation(),
                  direct->implementation());
    wrapped->run();
    const double once = seconds_per_iteration(*direct, 3);
    const auto iterations = std::max<int64_t>(1, static_cast<int64_t>(plan.slice_seconds / once));
    const double block_seconds = 4 * (static_cast<double>(iterations) + (iterations > 1 ? 1 : 0)) * once;
    const int blocks =
        std::clamp(static_cast<int>(plan.case_seconds / plan.repetitions / block_seconds), 1, plan.blocks);
    for (int block = 0; block < blocks; ++block) {
      const double a1 = seconds_per_iteration(*wrapped, iterations), b1 = seconds_per_iteration(*direct, iterations);
      const double b2 = seconds_per_iteration(*direct, iterations), a2 = seconds_per_iteration(*wrapped, iterations);
      slices.push_back({repetition, block, std::log((a1 + a2) / (b1 + b2))});
      seconds.push_back((a1 + a2) / 2);
    }
  }
  return {compare_paired(slices), median(seconds), flops};
}

// A few sizes of both kinds, for a quick look.
std::vector<OverheadCase> small_set() {
  const auto gemm = [](int64_t m, int64_t n, int64_t k, Pass pass) {
    return OverheadCase{"Gemm", {{"m", m}, {"n", n}, {"k", k}, {"bias", pass == Pass::forward}}, pass};
  };
  const auto conv = [](int64_t n, int64_t c, int64_t size, int64_t k, int64_t filter, int64_t stride, Pass pass) {
    return OverheadCase{"Conv",
                        {{"n", n},
                         {"c", c},
                         {"size", fmt::format("{0}x{0}", size)},
                         {"k", k},
                         {"filter", fmt::format("{0}x{0}", filter)},
                         {"stride", std::to_string(stride)},
                         {"pad", std::to_string(filter / 2)}},
                        pass};
  };
  return {gemm(128, 128, 256, Pass::forward),         gemm(256, 256, 256, Pass::forward),
          gemm(64, 1024, 1024, Pass::forward),        gemm(512, 512, 512, Pass::forward),
          gemm(1024, 1024, 1024, Pass::forward),      gemm(2048, 2048, 2048, Pass::forward),
          gemm(256, 256, 256, Pass::backward),        gemm(1024, 1024, 1024, Pass::backward),
          conv(1, 64, 14, 64, 3, 1, Pass::forward),   conv(1, 64, 56, 64, 3, 1, Pass::forward),
          conv(16, 64, 56, 256, 1, 1, Pass::forward), conv(16, 256, 14, 256, 3, 1, Pass::forward),
          conv(16, 64, 56, 64, 3, 1, Pass::forward),  conv(16, 3, 224, 64, 7, 2, Pass::forward),
          conv(1, 64, 56, 64, 3, 1, Pass::backward),  conv(16, 64, 56, 64, 3, 1, Pass::backward)};
}

std::vector<OverheadCase> cases_of(const Plan& plan) {
  std::vector<OverheadCase> cases;
  if (plan.suites.empty()) cases = small_set();
  std::set<std::string> known;  // a size may stand in several rows
  for (const std::string& name : plan.suites)
    for (const SuiteRow& row : load_suite(name).rows) {
      if (std::ranges::find(plan.sets, row.set) == plan.sets.end()) continue;
      nlohmann::json fields = row.fields;
      const std::string op = fields.at("operator");
      fields.erase("operator");
      for (const std::string& pass : plan.passes) {
        OverheadCase one{op, attributes_from_json(fields), pass == "forward" ? Pass::forward : Pass::backward};
        if (known.insert(one.label()).second) cases.push_back(std::move(one));
      }
    }
  std::erase_if(cases, [&](const OverheadCase& one) { return one.label().find(plan.only) == std::string::npos; });
  return cases;
}

constexpr double most_middle = 1.005, most_worst = 1.03;

void print_row(const OverheadCase& c, const Measured& m, std::string_view remark) {
  const auto& interval = m.comparison->interval;
  fmt::print("{:<70} {:>10.4f} {:>8.1f}  {:>6.4f}  {}{}\n", c.label(), m.seconds * 1e3, m.flops / m.seconds * 1e-9,
             m.comparison->ratio, interval ? fmt::format("{:.4f} .. {:.4f}", interval->low, interval->high) : "-",
             remark);
  std::fflush(stdout);
}

int run(const OverheadProgram& program, const Plan& plan) {
  set_threads(1);
  const auto backend = open_backend(program.backend);  // first: it holds the library to an ISA that works
  fmt::print("{}, f32, 1 thread; ratio = time of d5 / direct time\n", program.about);
  for (const auto& [name, value] : backend->facts()) fmt::print("{}: {}; ", name, value);
  fmt::print("\n\n{:<70} {:>10} {:>8}  {:>6}  {}\n", "case", "d5, ms", "GFLOP/s", "ratio", "95 % CI");
  std::vector<double> ratios;
  double worst = 0, worst_low = 0;
  std::string worst_case;
  int outside = 0, repeated = 0;
  for (const OverheadCase& c : cases_of(plan)) {
    Measured m = measure(c, *backend, program, plan);
    if (!m.comparison) {
      ++outside;
      continue;
    }
    print_row(c, m, "");
    if (m.comparison->ratio > most_worst) {  // among hundreds some are above it by chance: more data decides
      ++repeated;
      Plan longer = plan;
      longer.repetitions *= 3;
      longer.case_seconds *= 6;
      longer.least_seconds = 0;  // the case counts, whatever this time gives
      longer.most_seconds = std::numeric_limits<double>::infinity();
      m = measure(c, *backend, program, longer);
      print_row(c, m, "  (again, longer: this one counts)");
    }
    const auto& interval = m.comparison->interval;
    ratios.push_back(m.comparison->ratio);
    if (m.comparison->ratio > worst) {
      worst = m.comparison->ratio;
      worst_case = c.label();
    }
    worst_low = std::max(worst_low, interval ? interval->low : m.comparison->ratio);
  }
  if (ratios.empty())
    throw Error("[overhead] no case{} takes between {} and {} s", plan.only.empty() ? "" : " with '" + plan.only + "'",
                plan.least_seconds, plan.most_seconds);
  const double middle = median(ratios);
  const bool passed = middle <= most_middle && worst_low <= most_worst;
  fmt::print("\n{} cases, {} of them measured again; {} more take less than {} or more than {} s\n", ratios.size(),
             repeated, outside, plan.least_seconds, plan.most_seconds);
  fmt::print("median ratio {:.4f} (at most {} is wanted), worst {:.4f} in {} (at most {}{})\n{}\n", middle, most_middle,
             worst, worst_case, most_worst,
             worst > most_worst && worst_low <= most_worst ? "; its interval reaches below that: unclear" : "",
             passed ? "passed" : "failed");
  return passed ? 0 : 1;
}

}  // namespace

void fill_periodically(const Tensor& f32, uint64_t stream) {
  const auto values = f32.values<float>();
  const size_t period = std::min<size_t>(values.size(), 1 << 20);
  fill_uniform(Tensor::view(DType::f32, {static_cast<Index>(period)}, values.data()), Rng(7, stream), -1, 1);
  for (size_t at = period; at < values.size(); at += period)
    std::copy_n(values.begin(), std::min(period, values.size() - at), values.begin() + static_cast<long>(at));
}

std::string OverheadCase::label() const {
  std::string text = op + (pass == Pass::forward ? " forward" : " backward");
  for (const char* name : {"m", "n", "k", "c", "size", "filter", "stride", "pad"})
    if (values.has(name)) text += fmt::format(" {} {}", name, to_string(values.values().at(name)));
  if (values.flag("trans_a", false)) text += " A^T";
  if (values.flag("trans_b", false)) text += " B^T";
  return text;
}

int overhead_main(int argc, char** argv, const OverheadProgram& program) {
  CLI::App app{"What d5 adds: " + program.about + ", in one process"};
  Plan plan;
  app.add_option("--suite", plan.suites, "sizes of these suites (deepbench-gemm, deepbench-conv) instead of a few")
      ->delimiter(',');
  app.add_option("--set", plan.sets, "sets of the suites [training]")->delimiter(',');
  app.add_option("--pass", plan.passes, "forward, backward [both]")
      ->delimiter(',')
      ->check(CLI::IsMember({"forward", "backward"}));
  app.add_option("--only", plan.only, "cases whose line, as it is printed, holds this text");
  app.add_option("--repetitions", plan.repetitions, "times that both sides are made anew")->check(CLI::Range(6, 1000));
  app.add_option("--blocks", plan.blocks, "d5-direct-direct-d5 blocks in each, at most")->check(CLI::Range(1, 1000));
  app.add_option("--slice", plan.slice_seconds, "seconds of one slice, at least one iteration")
      ->check(CLI::PositiveNumber);
  app.add_option("--budget", plan.case_seconds, "seconds of one case; one block of each repetition always runs")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(program, plan);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace d5
