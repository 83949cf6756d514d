// SPDX-License-Identifier: Apache-2.0
// Level 0: one operator. How values become a case, and how the result of a case becomes a record.
#include <algorithm>
#include <cmath>

#include "d5/bench/op_case.hpp"
#include "d5/bench/op_meters.hpp"
#include "d5/bench/op_session.hpp"
#include "d5/bench/problem.hpp"
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
      record.fields.at("backend") != "reference")
    record.warnings.push_back(fmt::format("far below the roofline ({:.1f} %): the kernel is {}",
                                          100 * record.bound->share,
                                          record.details.value("kernels", Json::object()).dump()));
  return shares;
}

// Buffers of the executable and of the problem, a result read back, and the oracle in double: the peak of a check.
double bytes_to_check(const Json& fields) {
  const OperatorCase one = describe(fields);
  const auto in = one.specs();
  const auto made = registered<operators>(fields.at("operator").get<std::string>()).make(one.attributes);
  const auto out = made->infer(in);
  double bytes = 0, elements = 0;
  for (const std::vector<TensorSpec>* specs : {&in, &out})
    for (const TensorSpec& spec : *specs) {
      if (!spec.present) continue;
      bytes += spec.bytes();
      elements += static_cast<double>(spec.elements());
    }
  // Small cases are computed whole, with their scale and tolerance; of large ones a sample, from inputs in double.
  const bool whole = made->cost(in, pass_of(fields)).flops <= ProblemOptions{}.full_flops;
  const double passes = pass_of(fields) == Pass::backward ? 2 : 1;  // values, and gradients as large again
  return passes * (3 * bytes + (whole ? 40 : 8) * elements);
}

class OpBench final : public Bench {
 public:
  Json complete(const Json& fields) const override {
    if (!fields.contains("operator"))
      throw FieldError("operator", "[op] no operator is named; legal: see 'd5 list operators'");
    Json result = {{"kind", "op"}, {"operator", fields["operator"]}};
    const std::string op = fields["operator"].get<std::string>();
    const OperatorEntry* entry = find_registered<operators>(op);
    if (!entry) try {
        registered<operators>(op);
      } catch (const UsageError& error) {
        throw FieldError("operator", error.what());
      }

    std::vector<std::string> legal{"kind", "operator"};
    for (const Field& field : common_fields()) legal.push_back(field.name);
    for (const Parameter& parameter : entry->parameters) legal.push_back(parameter.name);
    for (const auto& [name, value] : fields.items())
      if (std::ranges::find(legal, name) == legal.end()) try {
          fail_unknown(fmt::format("[{}]", op), "field", name, legal);
        } catch (const UsageError& error) {
          throw FieldError(name, error.what());
        }

    for (const Field& field : common_fields()) {
      result[field.name] = fields.value(field.name, field.otherwise);
      check_field(field, result[field.name]);
    }
    check_backend(result["backend"]);
    try {
      parse_device(result["device"].get<std::string>());
    } catch (const UsageError& error) {
      throw FieldError("device", error.what());
    }
    if (result["threads"].get<int64_t>() < 1 || result["threads"].get<int64_t>() > 4096)
      throw FieldError("threads", fmt::format("[op] threads is {}; 1 to 4096 are legal", result["threads"].dump()));

    Json own = Json::object();
    for (const Parameter& parameter : entry->parameters)
      if (fields.contains(parameter.name)) own[parameter.name] = fields[parameter.name];
    for (const auto& [name, value] : own.items()) try {
        complete_values(op, *entry, attributes_from_json({{name, value}}));
      } catch (const UsageError& error) {
        throw FieldError(name, error.what());
      }
    const Json values = to_json(complete_values(op, *entry, attributes_from_json(own)));
    for (const Parameter& parameter : entry->parameters) result[parameter.name] = values.at(parameter.name);
    return result;
  }

  void check_case(const Json& fields) const override {
    const OperatorCase one = describe(fields);
    registered<operators>(fields.at("operator").get<std::string>()).make(one.attributes)->infer(one.specs());
  }

  double memory_bytes(const Json& fields) const override {
    try {
      return bytes_to_check(fields);
    } catch (const Error&) {  // no case at all: its child says why
      return 0;
    }
  }

  std::unique_ptr<Session> open(const Json& fields) const override { return open_op_session(fields); }

  Record record(const CaseResult& result) const override {
    Record record{.kind = "op", .fields = result.fields, .status = result.status, .reason = result.reason};
    record.group = result.group;
    record.stopped = result.stopped;
    record.warnings = result.warnings;
    record.samples = result.samples;
    record.rerun = rerun(result.fields);
    if (!result.prepared.empty()) record.details = result.prepared.front();
    record.details.erase("warmup_s");
    if (!result.finished.empty()) record.details["after"] = result.finished.back();
    record.details["unremarkable"] = unremarkable_fields(result.fields);
    for (const Plugin& plugin : opened_plugins())
      record.details["plugins"].push_back({{"file", plugin.given}, {"hash", plugin.hash}});
    const bool has_speed =
        (result.status == "passed" || result.status == "mistrusted") && !result.samples.time_s.empty();
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

  std::string rerun(const Json& fields) const override {
    std::string command = "d5 op " + fields.at("operator").get<std::string>();
    const std::vector<std::string> defaults = default_fields(fields);
    for (const auto& [name, value] : fields.items()) {
      const bool is_default = std::ranges::find(defaults, name) != defaults.end();
      if (name == "kind" || name == "operator" || (is_default && name != "backend")) continue;
      std::string option = name, text = value.is_string() ? value.get<std::string>() : value.dump();
      std::ranges::replace(option, '_', '-');
      command += fmt::format(" --{} {}", option, text.empty() ? "''" : text);
    }
    for (const Plugin& plugin : opened_plugins()) command += fmt::format(" {} {}", plugin.option, plugin.given);
    return command;
  }

  std::vector<std::string> compared_fields() const override { return {"backend", "device", "kernel"}; }

 private:
  // Fields at their default that a table need not repeat. Sizes, arithmetic and layout are always shown.
  std::vector<std::string> unremarkable_fields(const Json& fields) const {
    std::vector<std::string> names;
    for (const std::string& name : default_fields(fields))
      if (std::ranges::any_of(common_fields(), [&](const Field& f) { return f.name == name; }) && name != "backend" &&
          name != "math" && name != "layout")
        names.push_back(name);
    return names;
  }

  // Names of the fields that nobody had to give.
  std::vector<std::string> default_fields(const Json& fields) const {
    const Json defaults = complete({{"operator", fields.at("operator")}});
    std::vector<std::string> names;
    for (const auto& [name, value] : fields.items())
      if (defaults.contains(name) && defaults[name] == value) names.push_back(name);
    return names;
  }

  static void check_backend(const Json& backend) {
    std::vector<std::string> names;
    for (const BackendStatus& status : backend_statuses()) names.push_back(status.name);
    if (std::ranges::find(names, backend.get<std::string>()) == names.end()) try {
        fail_unknown("[op]", "backend", backend.get<std::string>(), names);
      } catch (const UsageError& error) {
        throw FieldError("backend", error.what());
      }
  }
};

}  // namespace
D5_REGISTER(benches, "op", OpBench);
}  // namespace d5
