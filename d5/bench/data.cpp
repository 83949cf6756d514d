// SPDX-License-Identifier: Apache-2.0
// Data: one batch out of the loader. How values become a case, and how the result of a case becomes a record.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "d5/bench/data_case.hpp"
#include "d5/bench/data_session.hpp"
#include "d5/bench/timed_record.hpp"
#include "d5/measure/quantile.hpp"
#include "d5/measure/summary.hpp"

namespace d5 {
namespace {

// One number of every slice that has it.
std::vector<double> of_slices(const std::vector<Json>& probes, const std::string& name) {
  std::vector<double> values;
  for (const Json& probe : probes)
    if (probe.contains(name)) values.push_back(probe[name].get<double>());
  return values;
}

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// Samples in a batch: fewer than were asked for where some cannot be read and are skipped.
double delivered(const std::vector<Json>& probes, double batch) {
  const double batches = sum_of(of_slices(probes, "batches"));
  return batches > 0 ? sum_of(of_slices(probes, "samples")) / batches : batch;
}

void warn_of_skipped(const CaseResult& result, Record& record) {
  const double skipped = sum_of(of_slices(result.finished, "skipped"));
  if (skipped == 0) return;
  std::string first;
  for (const Json& finished : result.finished)
    if (first.empty() && finished.contains("first_skipped")) first = finished["first_skipped"][0].get<std::string>();
  record.warnings.push_back(
      fmt::format("{:.0f} samples could not be read and were skipped; the first: {}", skipped, first));
}

// Seconds that a batch needs at the rates probed beside the slice; the name of the later one.
std::pair<double, std::string> bound_of(const Json& probe, double batch, double threads, double processes) {
  const double reading = batch / std::max(1e-300, probe.value("samples_per_s", 0.0) * threads);
  const double rate = probe.value("storage_bytes_per_s", 0.0);
  const double storage = rate > 0 ? processes * batch * probe.value("sample_file_bytes", 0.0) / rate : 0;
  return storage > reading ? std::pair{storage, "storage"} : std::pair{reading, "reading without a loader"};
}

void add_bound(const CaseResult& result, double batch, Record& record) {
  const Samples& s = record.samples;
  const double threads = result.fields.at("threads").get<double>();
  const double processes = result.fields.at("processes").get<double>();
  std::vector<double> bounds, shares;
  std::string name;
  size_t begin = 0;
  for (const Json& probe : result.probes) {
    size_t end = begin;
    while (end < s.time_s.size() && s.launch[end] == s.launch[begin] && s.round[end] == s.round[begin]) ++end;
    if (end == begin) break;
    const auto [bound, which] = bound_of(probe, batch, threads, processes);
    name = which;
    bounds.push_back(bound);
    shares.push_back(bound /
                     median({s.time_s.begin() + static_cast<long>(begin), s.time_s.begin() + static_cast<long>(end)}));
    begin = end;
  }
  if (bounds.empty()) return;
  record.bound = Bound{name, median(bounds), "s", median(shares)};
  if (record.bound->share > 1.05)
    record.warnings.push_back(
        fmt::format("{:.0f} % of the bound: the probe saw less than this case attained", 100 * record.bound->share));
}

constexpr double least_read = 0.01;  // of what the samples take in their files

// Why a cold case is not one, though no page was cached: what it read lay somewhere else. Empty where all is well.
std::string why_not_cold(const CaseResult& result, Record& record) {
  if (result.fields.at("cache") != "cold" || result.probes.empty()) return {};
  double read = 0, in_files = 0;
  for (const Json& probe : result.probes) {
    if (!probe.contains("bytes_from_storage")) {
      record.warnings.push_back("the kernel does not tell what came out of this storage: cold by its pages alone");
      return {};
    }
    read += probe["bytes_from_storage"].get<double>();
    in_files += probe["samples"].get<double>() * probe.value("sample_file_bytes", 0.0);
  }
  if (read >= least_read * in_files) return {};
  return fmt::format(
      "cache cold: {:.0f} bytes came out of storage for samples of {:.0f} bytes in their files: not cold", read,
      in_files);
}

class DataBench final : public Bench {
 public:
  Json complete(const Json& fields) const override {
    Json result = {{"kind", "data"}};
    std::vector<std::string> legal{"kind"};
    for (const CaseField& field : data_fields()) legal.push_back(field.name);
    check_names("[data]", legal, fields);
    complete_fields("[data]", data_fields(), fields, result);
    for (const char* name : {"batch", "ahead", "processes"})
      if (result[name].get<Index>() < 1)
        throw FieldError(name, fmt::format("[data] {} is {}; legal: at least 1", name, result[name].dump()));
    for (const char* name : {"decoder", "path"})
      if (result["store"] == "" && result[name] != "")
        throw FieldError(name, fmt::format("[data] {} is {}: it is about what --store writes, and there is no store",
                                           name, result[name].dump()));
    if (const auto path = result["path"].get<std::string>(); !path.empty() && !std::filesystem::is_directory(path))
      throw FieldError("path", fmt::format("[data] path '{}' is no folder", path));
    try {
      parse_augmentations(result["augment"]);
    } catch (const UsageError& error) {
      throw FieldError("augment", error.what());
    }
    return result;
  }

  std::unique_ptr<Session> open(const Json& fields) const override { return open_data_session(fields); }

  Record record(const CaseResult& result) const override {
    Record record{.kind = "data", .fields = result.fields, .status = result.status, .reason = result.reason};
    record.group = result.group;
    record.stopped = result.stopped;
    record.warnings = result.warnings;
    record.rerun = rerun(result.fields);
    if (!result.prepared.empty()) record.details = result.prepared.front();
    record.details.erase("warmup_s");
    if (!result.finished.empty()) record.details["after"] = result.finished.back();
    record.details["unremarkable"] = default_fields(result.fields);
    if (result.status != "passed" || result.samples.time_s.empty()) return record;
    if (const std::string reason = why_not_cold(result, record); !reason.empty()) {
      record.status = "failed";
      record.reason = reason;
      return record;
    }
    record.samples = result.samples;
    const Summary time = summarize(result.samples.time_s);
    record.warnings.insert(record.warnings.end(), time.warnings.begin(), time.warnings.end());
    const double batch = record.details["data"]["batch"].get<double>();
    const double samples = delivered(result.probes, batch);
    const double sample_bytes = record.details["data"]["sample_bytes"].get<double>();
    add_bound(result, batch, record);
    warn_of_skipped(result, record);
    const auto add = [&](const std::string& name, const std::string& unit, double scale, bool inverse) {
      Metric metric{.unit = unit,
                    .median = inverse ? scale / time.median : scale * time.median,
                    .n = time.n,
                    .n_eff = time.n_eff};
      if (time.ci95) {
        const double low = time.ci95->low, high = time.ci95->high;
        metric.ci95 = inverse ? std::pair{scale / high, scale / low} : std::pair{scale * low, scale * high};
      }
      record.metrics.emplace_back(name, metric);
    };
    add("time", "s", 1, false);
    const auto of_probes = [&](const std::string& name, const std::string& unit, const std::string& field,
                               double scale = 1) {
      const std::vector<double> values = of_slices(result.probes, field);
      if (!values.empty())
        record.metrics.emplace_back(
            name,
            Metric{.unit = unit, .median = scale * median(values), .n = values.size(), .n_eff = double(values.size())});
    };
    if (result.fields.at("processes") == 1) {
      add("throughput", "samples/s", samples, true);
      add("bandwidth", "GB/s", samples * sample_bytes * 1e-9, true);
    } else {  // of all processes
      of_probes("throughput", "samples/s", "all_samples_per_s");
      of_probes("bandwidth", "GB/s", "all_samples_per_s", sample_bytes * 1e-9);
    }
    of_probes("latency", "s", "latency_s");
    of_probes("stall", "1", "stall_share");
    add_read_share(result, record);
    if (const std::vector<double> kept = of_slices(result.probes, "cached_share"); !kept.empty() && median(kept) > 0.05)
      record.warnings.push_back(fmt::format("{:.0f} % of the pages stayed cached: not cold", 100 * median(kept)));
    for (const Quantile& q : time.tails) {
      Json tail = {{"value", q.value}, {"ci95", nullptr}};
      if (q.interval) tail["ci95"] = {q.interval->low, q.interval->high};
      record.details["tails"][fmt::format("p{:g}", 100 * q.p)] = tail;
    }
    if (!result.probes.empty()) record.details["probe"] = result.probes.back();
    return record;
  }

  std::string rerun(const Json& fields) const override {
    return rerun_command("data bench", "dataset", fields, default_fields(fields));
  }

  std::vector<std::string> compared_fields() const override {
    return {"dataset", "container", "store", "decoder", "path"};
  }

 private:
  // Bytes that came out of storage for every byte of a batch: 0 where all was cached, above 1 where more is read than
  // used.
  static void add_read_share(const CaseResult& result, Record& record) {
    const double needed = sum_of(of_slices(result.probes, "bytes_needed"));
    const double read = sum_of(of_slices(result.probes, "bytes_from_storage"));
    if (needed > 0 && result.probes.front().contains("bytes_from_storage"))
      record.metrics.emplace_back("read_share",
                                  Metric{.unit = "x", .median = read / needed, .n = result.probes.size()});
  }

  std::vector<std::string> default_fields(const Json& fields) const {
    std::vector<std::string> names;
    for (const CaseField& field : data_fields())
      if (fields.at(field.name) == field.otherwise) names.push_back(field.name);
    return names;
  }
};

}  // namespace
D5_REGISTER(benches, "data", DataBench);
}  // namespace d5
