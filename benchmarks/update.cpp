// SPDX-License-Identifier: Apache-2.0
// The update alone, at the size of a network: d5's formulas against what memory streams at and against LibTorch's own
// optimizers, fused and not. All of them take turns in every round; a share and a ratio are of one round, and their
// medians are printed with intervals. Bytes are compulsory ones: what the rule reads and writes once, and what is
// read again when a norm is known, of parameters that a core's own cache does not hold so long. A cache that cores
// share is not counted on; where it helps, a share may exceed 1. On a device (--device cuda) a time is that of 20
// updates that the host launches without waiting, and streaming is what the backend's copies reach.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>
#include <optional>

#include "d5/backends/backend.hpp"
#include "d5/core/parallel.hpp"
#include "d5/core/rng.hpp"
#include "d5/measure/cache.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/quantile.hpp"
#include "d5/measure/roofline.hpp"
#include "d5/networks/network.hpp"
#include "d5/training/optimizer.hpp"

namespace {

using namespace d5;

struct Plan {
  std::string network = "resnet-50", dtype = "f32", device = "cpu";
  std::vector<std::string> rules{"sgd", "momentum", "adam", "adamw", "adagrad", "rmsprop"};
  int rounds = 15, threads = 1;
  double share = 0;
};

// What a rule reads and writes of an element, in numbers: parameter, gradient, states; parameter and states; what has
// to be read again when norms are known. LAMB's moments need no norm: they are written when norms are made, and the
// gradient is not wanted again.
struct Traffic {
  double read, written, again = 0;
  bool gradient_again = false;
};
Traffic traffic(const std::string& rule) {
  if (rule == "sgd") return {2, 1};
  if (rule == "lars") return {3, 2, 2, true};
  if (rule == "lamb") return {4, 3, 3};
  const bool two_states = rule.starts_with("ada") && rule != "adagrad";
  return two_states ? Traffic{4, 3} : Traffic{3, 2};
}

struct Bytes {
  double read = 0, written = 0;
};
// In 16 bits the gradient is half as long and the parameter is written twice.
Bytes compulsory(const std::string& rule, const ParameterSet& set) {
  const Traffic numbers = traffic(rule);
  const double narrow = set.compute_dtype() == DType::f32 ? 0 : 2;
  double own_cache = 0;
  for (const CacheLevel& cache : cache_levels())
    if (cache.level == 2) own_cache = static_cast<double>(cache.bytes);
  Bytes bytes;
  for (const ParameterSet::Parameter& p : set.parameters()) {
    const auto elements = static_cast<double>(p.padded_elements);
    const double again = elements * (numbers.again * 4 - (numbers.gradient_again ? narrow : 0));
    bytes.read += elements * (numbers.read * 4 - narrow) + (again > own_cache ? again : 0);
    bytes.written += elements * (numbers.written * 4 + narrow);
  }
  return bytes;
}

// LibTorch's optimizer of the same rule, fused where it has such a kernel.
std::vector<OptimizerSettings> natives(const std::string& rule) {
  const auto with = [](const std::string& name, Attributes values) {
    std::vector<OptimizerSettings> result;
    for (const bool fused : {true, false}) {
      values.set("fused", fused);
      result.push_back({name, values});
    }
    return result;
  };
  if (rule == "sgd") return with("torch:sgd", {});
  if (rule == "momentum") return with("torch:sgd", {{"mu", 0.9}});
  if (rule == "nesterov") return with("torch:sgd", {{"mu", 0.9}, {"nesterov", true}});
  if (rule == "adam" || rule == "adamw" || rule == "adagrad") return with("torch:" + rule, {});
  if (rule == "rmsprop") return {{"torch:rmsprop", {}}};
  return {};
}

std::unique_ptr<ParameterSet> parameters(const Plan& plan, Memory& memory) {
  const DType type = parse_dtype(plan.dtype);
  const Graph graph = build_network(plan.network, {}, 1, DType::f32, Mode::training);
  auto set = std::make_unique<ParameterSet>(type, memory);
  for (const GraphInput& input : graph.inputs)
    if (input.parameter && input.differentiable) set->add({.name = input.name, .spec = {type, input.spec.shape}});
  set->freeze();
  const Tensor values(DType::f32, {set->elements()}), gradients(type, {set->elements()});
  fill_uniform(values, Rng(1), -1, 1);
  fill_normal(gradients, Rng(2), 0, 1e-2);
  set->masters(set->all()).copy_from(values);
  set->gradients(set->all()).copy_from(gradients);
  return set;
}

struct Contender {
  std::string name;
  std::unique_ptr<ParameterSet> set;
  std::unique_ptr<Optimizer> optimizer;
  std::vector<double> seconds = {};
  Index step = 0;

  double once() {
    const bool here = set->masters({0, 0}).memory().is_host();
    const int updates = here ? 1 : 20;
    const double began = now_seconds();
    for (int i = 0; i < updates; ++i) {
      optimizer->new_input({.step = ++step});
      optimizer->update(set->all());
    }
    if (!here) set->masters({0, 1}).to(host_memory());  // waits
    return (now_seconds() - began) / updates;
  }
};

std::string with_interval(std::vector<double> values) {
  std::ranges::sort(values);
  const auto interval = quantile_interval(values, 0.5, static_cast<double>(values.size()));
  std::string text = fmt::format("{:.3f}", median(values));
  if (interval) text += fmt::format(" [{:.3f}, {:.3f}]", interval->low, interval->high);
  return text;
}

using Bandwidth = std::function<double(double bytes, double written_share)>;

bool measure(const Plan& plan, const std::string& rule, Memory& memory, const Bandwidth& stream) {
  std::vector<Contender> all;
  const auto enter = [&](const OptimizerSettings& settings) {
    auto set = parameters(plan, memory);
    auto optimizer = make_optimizer(settings, *set);
    const bool choice = settings.values.has("fused");
    const std::string note = !choice ? "" : settings.values.flag("fused", false) ? " fused" : " not fused";
    all.push_back({settings.name + note, std::move(set), std::move(optimizer)});
  };
  enter({rule, {}});
  if (plan.dtype == "f32" && find_registered<optimizers>("torch:sgd"))
    for (const OptimizerSettings& native : natives(rule)) enter(native);
  const auto elements = static_cast<double>(all[0].set->elements());
  const auto [read, written] = compulsory(rule, *all[0].set);
  const double bytes = read + written;

  std::vector<double> shares, streamed;
  for (int round = -2; round < plan.rounds; ++round) {  // the first two warm up
    const double bandwidth = stream(bytes, written / bytes);
    for (size_t i = 0; i < all.size(); ++i) {
      Contender& contender = all[(i + static_cast<size_t>(round + 2)) % all.size()];
      const double seconds = contender.once();
      if (round >= 0) contender.seconds.push_back(seconds);
    }
    if (round < 0) continue;
    streamed.push_back(bandwidth);
    shares.push_back(bytes / all[0].seconds.back() / bandwidth);
  }
  std::cout << fmt::format("{:<9} {:.2f} M elements, {:.1f} ms, {:.2f} of {:.2f} GB/s, share of streaming {}\n", rule,
                           elements * 1e-6, median(all[0].seconds) * 1e3, bytes / median(all[0].seconds) * 1e-9,
                           median(streamed) * 1e-9, with_interval(shares));
  bool good = median(shares) >= plan.share;
  for (size_t i = 1; i < all.size(); ++i) {
    std::vector<double> ratios;
    for (size_t r = 0; r < shares.size(); ++r) ratios.push_back(all[0].seconds[r] / all[i].seconds[r]);
    std::cout << fmt::format("{:<9} {:.1f} ms {}: ours takes {} of its time\n", "", median(all[i].seconds) * 1e3,
                             all[i].name, with_interval(ratios));
    std::ranges::sort(ratios);
    const auto interval = quantile_interval(ratios, 0.5, static_cast<double>(ratios.size()));
    if (plan.share > 0 && interval) good = good && interval->low <= 1;  // not slower, as far as can be seen
  }
  return good;
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App program("The update alone against streaming bandwidth and LibTorch's own optimizers");
  Plan plan;
  program.add_option("--network", plan.network, "Whose parameters")->capture_default_str();
  program.add_option("--rules", plan.rules, "Optimizers")->delimiter(',')->capture_default_str();
  program.add_option("--dtype", plan.dtype, "Of gradients and computing: f32, bf16, f16")->capture_default_str();
  program.add_option("--threads", plan.threads, "Threads")->capture_default_str();
  program.add_option("--device", plan.device, "Where parameters lie: cpu, cuda:0")->capture_default_str();
  program.add_option("--rounds", plan.rounds, "Updates of each")->capture_default_str();
  program.add_option("--share", plan.share,
                     "Exit 3 where an update reaches less of streaming bandwidth than this, or LibTorch's is faster");
  CLI11_PARSE(program, count, arguments);
  try {
    set_threads(plan.threads);
    std::unique_ptr<Backend> torch;
    try {
      torch = open_backend("torch");
    } catch (const Error& error) {
      if (plan.device != "cpu") throw;
      std::cerr << "without LibTorch: " << error.what() << "\n";
    }
    Memory& memory = plan.device == "cpu" ? host_memory() : torch->memory(plan.device);
    std::optional<Probe> host;
    std::unique_ptr<DeviceProbe> device;
    Bandwidth stream;
    if (plan.device == "cpu") {
      host.emplace(plan.threads);
      stream = [&](double bytes, double written_share) { return host->bandwidth(bytes, written_share); };
    } else {
      device = torch->probe(plan.device);
      stream = [&](double bytes, double) { return device->bandwidth(bytes); };
    }
    bool good = true;
    for (const std::string& rule : plan.rules) good = measure(plan, rule, memory, stream) && good;
    return good ? 0 : 3;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
