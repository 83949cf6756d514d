// SPDX-License-Identifier: Apache-2.0
#include "d5/report/record.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

constexpr std::string_view schema = "d5-record/1";
constexpr std::array<std::string_view, 6> statuses = {"passed",  "failed",      "mistrusted",
                                                      "skipped", "unsupported", "error"};
constexpr int deepest = 64;  // nested levels in one line: far beyond any record, far below what exhausts the stack

using Ordered = nlohmann::ordered_json;

Ordered number(double value) { return std::isfinite(value) ? Ordered(value) : Ordered(nullptr); }

Ordered numbers(const std::vector<double>& values) {
  Ordered result = Ordered::array();
  for (double v : values) result.push_back(number(v));
  return result;
}

Ordered metric_json(const Metric& m) {
  Ordered result;
  result["unit"] = m.unit;
  result["median"] = number(m.median);
  result["ci95"] = m.ci95 ? Ordered::array({number(m.ci95->first), number(m.ci95->second)}) : Ordered(nullptr);
  result["n"] = m.n;
  result["n_eff"] = number(m.n_eff);
  return result;
}

Ordered bound_json(const std::optional<Bound>& b) {
  if (!b) return nullptr;
  Ordered result;
  result["name"] = b->name;
  result["value"] = number(b->value);
  result["unit"] = b->unit;
  result["share"] = number(b->share);
  return result;
}

Ordered samples_json(const Samples& s) {
  Ordered result;
  result["time_s"] = numbers(s.time_s);
  result["launch"] = s.launch;
  result["round"] = s.round;
  result["start_s"] = numbers(s.start_s);
  result["warmup_s"] = numbers(s.warmup_s);
  result["batch"] = s.batch;
  return result;
}

Ordered ordered(const Record& r) {
  Ordered result;
  result["schema"] = schema;
  result["kind"] = r.kind;
  if (r.kind == "environment") {
    result["environment"] = r.environment;
    result["warnings"] = r.warnings;
    result["details"] = r.details;
    return result;
  }
  result["case"] = r.fields.is_null() ? Ordered::object() : Ordered(r.fields);
  result["status"] = r.status;
  result["reason"] = r.reason;
  result["samples"] = samples_json(r.samples);
  result["group"] = r.group;
  Ordered& metrics = result["metrics"] = Ordered::object();
  for (const auto& [name, metric] : r.metrics) metrics[name] = metric_json(metric);
  result["bound"] = bound_json(r.bound);
  result["stopped"] = r.stopped;
  result["warnings"] = r.warnings;
  result["environment"] = r.environment;
  result["rerun"] = r.rerun;
  result["details"] = r.details;
  return result;
}

// One member of an object, read with its full name in every error.
template <class J>
class Field {
 public:
  Field(const J& value, std::string name) : value_(&value), name_(std::move(name)) {}

  Field at(const std::string& key) const {
    expect(value_->is_object(), "an object");
    const std::string full = name_.empty() ? key : name_ + "." + key;
    const auto found = value_->find(key);
    if (found == value_->end()) throw Error("[record] '{}' is missing", full);
    return Field(*found, full);
  }
  bool is_null() const { return value_->is_null(); }
  const J& object() const {
    expect(value_->is_object(), "an object");
    return *value_;
  }
  std::string text() const {
    expect(value_->is_string(), "a text");
    return value_->template get<std::string>();
  }
  double number() const {
    if (value_->is_null()) return std::numeric_limits<double>::quiet_NaN();
    expect(value_->is_number(), "a number or null");
    return value_->template get<double>();
  }
  int64_t integer(int64_t low, int64_t high) const {
    const bool fits = value_->is_number_integer() &&
                      (!value_->is_number_unsigned() || value_->template get<uint64_t>() <= uint64_t(INT64_MAX));
    expect(fits && value_->template get<int64_t>() >= low && value_->template get<int64_t>() <= high,
           fmt::format("an integer of {} .. {}", low, high));
    return value_->template get<int64_t>();
  }
  template <class Read>
  auto list(Read read) const {
    expect(value_->is_array(), "an array");
    std::vector<decltype(read(*this))> result;
    result.reserve(value_->size());
    for (size_t i = 0; i < value_->size(); ++i) {
      result.push_back(read(Field((*value_)[i], fmt::format("{}[{}]", name_, i))));
    }
    return result;
  }
  void expect(bool right, std::string_view what) const {
    if (right) return;
    std::string given = value_->dump(-1, ' ', false, J::error_handler_t::replace);
    if (given.size() > 40) given = given.substr(0, 40) + "...";
    throw Error("[record] '{}' is {}; legal: {}", name_, given, what);
  }

 private:
  const J* value_;
  std::string name_;
};

template <class J>
Samples read_samples(const Field<J>& f) {
  const auto number = [](const Field<J>& x) { return x.number(); };
  const auto integer = [](const Field<J>& x) { return static_cast<int>(x.integer(INT32_MIN, INT32_MAX)); };
  Samples s;
  s.time_s = f.at("time_s").list(number);
  s.launch = f.at("launch").list(integer);
  s.round = f.at("round").list(integer);
  s.start_s = f.at("start_s").list(number);
  s.warmup_s = f.at("warmup_s").list(number);
  s.batch = f.at("batch").integer(1, INT64_MAX);
  const auto same_length = [&](const char* name, size_t size) {
    if (size == s.time_s.size()) return;
    throw Error("[record] 'samples.{}' has {} entries; legal: {}, as many as 'samples.time_s'", name, size,
                s.time_s.size());
  };
  same_length("launch", s.launch.size());
  same_length("round", s.round.size());
  same_length("start_s", s.start_s.size());
  return s;
}

template <class J>
Metric read_metric(const Field<J>& f) {
  Metric m;
  m.unit = f.at("unit").text();
  m.median = f.at("median").number();
  m.n = static_cast<size_t>(f.at("n").integer(0, INT64_MAX));
  m.n_eff = f.at("n_eff").number();
  const Field<J> interval = f.at("ci95");
  if (!interval.is_null()) {
    const std::vector<double> ends = interval.list([](const Field<J>& x) { return x.number(); });
    interval.expect(ends.size() == 2, "null or [low, high]");
    m.ci95 = {ends[0], ends[1]};
  }
  return m;
}

template <class J>
Record read(const J& json) {
  const Field<J> all(json, "");
  if (!json.is_object()) throw Error("[record] not a JSON object");
  all.at("schema").expect(all.at("schema").text() == schema, schema);
  Record r;
  r.kind = all.at("kind").text();
  all.at("kind").expect(!r.kind.empty(), "the name of a level, or environment");
  r.environment = all.at("environment").text();
  r.details = nlohmann::json(all.at("details").object());
  r.warnings = all.at("warnings").list([](const Field<J>& x) { return x.text(); });
  if (r.kind == "environment") return r;

  r.fields = nlohmann::json(all.at("case").object());
  r.status = all.at("status").text();
  all.at("status").expect(std::find(statuses.begin(), statuses.end(), r.status) != statuses.end(),
                          "passed, failed, mistrusted, skipped, unsupported, error");
  r.reason = all.at("reason").text();
  r.samples = read_samples(all.at("samples"));
  r.group = all.at("group").text();
  const Field<J> metrics = all.at("metrics");
  for (const auto& [name, value] : metrics.object().items())
    r.metrics.emplace_back(name, read_metric(metrics.at(name)));
  if (const Field<J> bound = all.at("bound"); !bound.is_null()) {
    r.bound =
        Bound{bound.at("name").text(), bound.at("value").number(), bound.at("unit").text(), bound.at("share").number()};
  }
  r.stopped = all.at("stopped").text();
  r.rerun = all.at("rerun").text();
  return r;
}

}  // namespace

const Metric* Record::metric(const std::string& name) const {
  for (const auto& [known, metric] : metrics) {
    if (known == name) return &metric;
  }
  return nullptr;
}

nlohmann::json to_json(const Record& r) { return nlohmann::json(ordered(r)); }

Record record_from_json(const nlohmann::json& json) { return read(json); }

// A name or message may hold bytes that are no UTF-8 (a file name in an error): they must not cost the record.
std::string to_line(const Record& r) { return ordered(r).dump(-1, ' ', false, Ordered::error_handler_t::replace); }

Record record_from_line(std::string_view line) {
  const auto not_too_deep = [](int depth, Ordered::parse_event_t, Ordered&) {
    if (depth > deepest) throw Error("[record] nested deeper than {} levels", deepest);
    return true;
  };
  try {
    return read(Ordered::parse(line, not_too_deep));
  } catch (const nlohmann::json::exception& e) {
    throw Error("[record] not JSON: {}", e.what());
  }
}

Record environment_record(std::string hash, nlohmann::json captured) {
  Record r;
  r.kind = "environment";
  r.environment = std::move(hash);
  r.details = std::move(captured);
  return r;
}

}  // namespace d5
