// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/net_metrics.hpp"

#include <algorithm>
#include <cmath>

#include "d5/bench/meters.hpp"
#include "d5/measure/metrics/energy.hpp"
#include "d5/measure/quantile.hpp"

namespace d5 {
namespace {

void add_unavailable(Record& record, const std::string& name, const std::string& unit, const std::string& reason) {
  record.metrics.emplace_back(name, Metric{.unit = unit, .median = NAN, .n = 0, .n_eff = 0});
  record.details["unavailable"][name] = reason;
}

void add_throughput(double batch, Record& record) {
  const Metric* time = record.metric("time");
  if (!time || !(time->median > 0)) return;
  Metric rate{.unit = "samples/s", .median = batch / time->median, .n = time->n, .n_eff = time->n_eff};
  if (time->ci95) rate.ci95 = {batch / time->ci95->second, batch / time->ci95->first};
  record.metrics.emplace_back("throughput", rate);
}

void add_latency(const Samples& samples, Record& record) {
  std::vector<double> sorted = samples.time_s;
  if (sorted.empty()) return;
  std::ranges::sort(sorted);
  const double n_eff = effective_samples(samples.time_s);
  for (const double p : {0.5, 0.9, 0.99}) {
    const std::string name = fmt::format("latency_p{:g}", 100 * p);
    const auto interval = quantile_interval(sorted, p, n_eff);
    if (samples.batch > 1)
      add_unavailable(record, name, "s",
                      fmt::format("a sample is the mean of {} steps, because one is too short for the clock; means "
                                  "have no percentiles of single steps",
                                  samples.batch));
    else if (!interval)
      add_unavailable(
          record, name, "s",
          fmt::format("{} steps were timed, as good as {:.0f} independent ones; an interval of p{:g} needs {}",
                      sorted.size(), n_eff, 100 * p, samples_for_quantile(p)));
    else
      record.metrics.emplace_back(name, Metric{.unit = "s",
                                               .median = quantile(sorted, p),
                                               .ci95 = {{interval->low, interval->high}},
                                               .n = sorted.size(),
                                               .n_eff = n_eff});
  }
}

// One number a launch.
void add_launches(Record& record, const std::string& name, const std::string& unit, const std::vector<double>& values) {
  const Summary summary = summarize(values);
  Metric metric{.unit = unit, .median = summary.median, .n = summary.n, .n_eff = summary.n_eff};
  if (summary.ci95) metric.ci95 = {{summary.ci95->low, summary.ci95->high}};
  record.metrics.emplace_back(name, metric);
}

void add_memory(const CaseResult& result, Record& record) {
  for (const std::string what : {"planned", "peak"}) {
    std::vector<double> launches;
    std::string reason = "nothing was run";
    for (const Json& details : result.prepared) {
      const Json memory = details.value("memory", Json::object());
      if (memory.contains(what + "_bytes")) launches.push_back(memory[what + "_bytes"].get<double>());
      reason = memory.value(what + "_unavailable", reason);
    }
    if (launches.empty())
      add_unavailable(record, "memory_" + what, "B", reason);
    else
      add_launches(record, "memory_" + what, "B", launches);
  }
}

void add_energy(const CaseResult& result, double batch, Record& record) {
  const std::string meter = result.fields.at("device") == "cpu" ? "energy" : "device_energy";
  Measured measured{.reports = reports_of(result, meter)};
  std::string reason = result.fields.at("cache") == "cold" ? "a counter would count what empties the caches, too"
                                                           : "no slice was measured";
  for (const Json& report : measured.reports) reason = report.value("unavailable", reason);
  std::erase_if(measured.reports, [](const Json& report) { return !report.contains("joules"); });
  auto energy = energy_per_iteration(measured);
  if (!energy) return add_unavailable(record, "energy_per_sample", "J", reason);
  energy->median /= batch;
  if (energy->ci95) energy->ci95 = {{energy->ci95->first / batch, energy->ci95->second / batch}};
  record.metrics.emplace_back("energy_per_sample", *energy);
}

}  // namespace

int64_t samples_for_quantile(double p) {
  const double beyond = std::max(p, 1 - p);  // the largest of n is below quantile p with probability p^n
  return static_cast<int64_t>(std::ceil(std::log(0.025) / std::log(beyond)));
}

void add_net_metrics(const CaseResult& result, Record& record) {
  if (!record.metric("time")) return;
  auto batch = result.fields.at("batch").get<double>();
  if (!result.prepared.empty()) batch = result.prepared.front().value("samples_per_step", batch);
  add_throughput(batch, record);
  add_latency(result.samples, record);
  add_memory(result, record);
  add_energy(result, batch, record);
}

}  // namespace d5
