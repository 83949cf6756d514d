// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/timed_record.hpp"

#include <algorithm>
#include <cctype>

#include "d5/bench/meters.hpp"
#include "d5/core/plugins.hpp"
#include "d5/measure/quantile.hpp"

namespace d5 {
namespace {

// The bound is what the machine gave in the same slice; the share is the median over slices, which are returned.
std::vector<double> add_bound(const CaseResult& result, double flops, double bytes, Record& record) {
  std::vector<double> bounds, shares;
  size_t begin = 0, slice = 0;
  const Samples& s = result.samples;
  while (begin < s.time_s.size() && slice < result.probes.size()) {
    size_t end = begin;
    while (end < s.time_s.size() && s.launch[end] == s.launch[begin] && s.round[end] == s.round[begin]) ++end;
    const double peak = result.probes[slice].value("peak_flops", 0.0),
                 bandwidth = result.probes[slice].value("bandwidth", 0.0);
    const double bound = std::max(peak > 0 ? flops / peak : 0.0, bandwidth > 0 ? bytes / bandwidth : 0.0);
    bounds.push_back(bound);
    shares.push_back(bound /
                     median({s.time_s.begin() + static_cast<long>(begin), s.time_s.begin() + static_cast<long>(end)}));
    begin = end;
    ++slice;
  }
  if (bounds.empty() || median(bounds) == 0) return {};
  record.bound = Bound{"roofline", median(bounds), "s", median(shares)};
  if (record.bound->share > 1.05)
    record.warnings.push_back(
        fmt::format("{:.0f} % of the roofline: the probe saw less than this case attained", 100 * record.bound->share));
  // A library that does not know the processor, or that has no kernel for a layout, computes slowly without a word.
  constexpr double far_below = 0.1, long_enough_s = 1e-4;
  if (record.bound->share < far_below && record.bound->value / record.bound->share > long_enough_s &&
      record.fields.at("backend") != "reference") {
    const Json kernels = record.details.value("kernels", Json::object());
    record.warnings.push_back(fmt::format("far below the roofline ({:.1f} %): {}", 100 * record.bound->share,
                                          kernels.size() > 1
                                              ? fmt::format("{} kernels, named in the record", kernels.size())
                                              : "the kernel is " + kernels.dump()));
  }
  return shares;
}

}  // namespace

Record timed_record(const CaseResult& result, std::string rerun, std::vector<std::string> unremarkable) {
  Record record{
      .kind = result.fields.at("kind"), .fields = result.fields, .status = result.status, .reason = result.reason};
  record.group = result.group;
  record.stopped = result.stopped;
  record.warnings = result.warnings;
  record.samples = result.samples;
  record.rerun = std::move(rerun);
  if (!result.prepared.empty()) record.details = result.prepared.front();
  record.details.erase("warmup_s");
  for (const Json& warning : record.details.value("warnings", Json::array())) record.warnings.push_back(warning);
  record.details.erase("warnings");
  if (!result.finished.empty()) record.details["after"] = result.finished.back();
  record.details["unremarkable"] = std::move(unremarkable);
  for (const Plugin& plugin : opened_plugins())
    record.details["plugins"].push_back({{"file", plugin.given}, {"hash", plugin.hash}});
  const bool has_speed = (result.status == "passed" || result.status == "mistrusted") && !result.samples.time_s.empty();
  Measured measured;
  if (has_speed) {
    measured.time = summarize(result.samples.time_s);
    measured.flops = record.details["cost"]["flops"];
    measured.bytes = record.details["cost"]["bytes"];
    record.warnings.insert(record.warnings.end(), measured.time->warnings.begin(), measured.time->warnings.end());
    measured.shares = add_bound(result, measured.flops, measured.bytes, record);
    for (const Quantile& q : measured.time->tails) {
      Json tail = {{"value", q.value}, {"ci95", nullptr}};
      if (q.interval) tail["ci95"] = {q.interval->low, q.interval->high};
      record.details["tails"][fmt::format("p{:g}", 100 * q.p)] = tail;
    }
  } else {
    record.samples = {};
  }
  add_metrics(result, std::move(measured), record);
  return record;
}

std::string shell_word(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_-+=.,:/@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, plain)) return text;
  std::string quoted = "'";
  for (const char c : text) c == '\'' ? quoted += "'\\''" : quoted += c;
  return quoted + "'";
}

std::string rerun_command(const std::string& command, const std::string& subject, const Json& fields,
                          const std::vector<std::string>& defaults) {
  std::string text = fmt::format("d5 {} {}", command, shell_word(fields.at(subject)));
  for (const auto& [name, value] : fields.items()) {
    const bool is_default = std::ranges::find(defaults, name) != defaults.end();
    if (name == "kind" || name == subject || (is_default && name != "backend")) continue;
    std::string option = name;
    std::ranges::replace(option, '_', '-');
    text += fmt::format(" --{} {}", option, shell_word(value));
  }
  for (const Plugin& plugin : opened_plugins()) text += fmt::format(" {} {}", plugin.option, shell_word(plugin.given));
  return text;
}

}  // namespace d5
