// SPDX-License-Identifier: Apache-2.0
// One case inside a child: the whole of it (oracle, loader, trainer, scheme) runs here. A level registers its Bench
// once:
//   D5_REGISTER(benches, "op", OpBench);
// A case is a flat JSON object of plain values, {"kind":"op","operator":"Gemm","backend":"onednn","m":512,...}.
//
// Calls: prepare, then any number of run, then finish. Any exception becomes the outcome of the case.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "d5/core/registry.hpp"
#include "d5/core/tensor.hpp"
#include "d5/report/record.hpp"

namespace d5 {

using Json = nlohmann::json;

// list < build < check < measure: each does all of the one before.
enum class Depth { list, build, check, measure };
Depth parse_depth(std::string_view);
std::string_view name(Depth);

// What the child says of a case before it is timed, or after.
struct Outcome {
  std::string status = "passed";  // passed | failed | mistrusted | skipped | unsupported | error
  std::string reason;
  Json details = Json::object();  // level's own: errors, kernels, seconds_per_iteration, bound, memory
};

struct Slice {
  int64_t samples = 1;  // timed samples wanted
  int64_t batch = 1;    // iterations in one sample
  int64_t rewarm = 1;   // unrecorded iterations first
};
struct SliceResult {
  std::vector<double> seconds;  // per iteration, one number a sample
  std::vector<double> start;    // steady clock, seconds
  Json probe = Json::object();  // what the machine gives right now: {"peak_flops":..,"bandwidth":..}
};

// Metrics beyond the usual ones (measure/metric.hpp), and where their files go: folder and beginning of a name.
struct MetricRequest {
  std::vector<std::string> names;
  std::string prefix;
};

class Session {
 public:
  virtual ~Session() = default;
  virtual void want(const MetricRequest&) {}  // before prepare; what it reports goes to details.metrics
  virtual Outcome prepare(Depth) = 0;  // why_not, compile, check, warm up, calibrate: details.seconds_per_iteration
  virtual SliceResult run(const Slice&) = 0;
  virtual Outcome finish() = 0;                     // check again: races show later
  virtual Tensor fetch(const std::string& tensor);  // default: Error, nothing by that name
};

// Everything the runner learned about one case, over all launches.
struct CaseResult {
  Json fields;  // the case
  std::string status = "passed", reason;
  Samples samples;
  std::vector<Json> prepared, finished, probes;  // one a launch; probes: one a slice
  std::string stopped, group;
  std::vector<std::string> warnings;
  std::vector<std::string> metrics;  // asked for beyond the usual ones
  int comparisons = 0;               // in the table that this case belongs to; 0: it is compared with nothing
};

// One level: how values become a case, a case becomes a session, and its result a record.
class Bench {
 public:
  virtual ~Bench() = default;
  // Defaults filled in, types made right, every name checked. FieldError names the field.
  virtual Json complete(const Json& fields) const = 0;
  // Error where the values of a complete case do not fit together: a filter larger than its image.
  virtual void check_case(const Json& /*fields*/) const {}
  // About what a child needs for a complete case, its check included; 0: unknown.
  virtual double memory_bytes(const Json& /*fields*/) const { return 0; }
  virtual std::unique_ptr<Session> open(const Json& fields) const = 0;
  virtual Record record(const CaseResult&) const = 0;
  virtual std::string rerun(const Json& fields) const = 0;  // the one command that runs this case alone
  // Cases that differ only in these fields are measured together, interleaved, and compared with the first.
  virtual std::vector<std::string> compared_fields() const = 0;
  // The case is one long run: prepare does all of it, in a fresh child, and nothing is repeated or interleaved.
  virtual bool runs_once() const { return false; }
  // What there is nothing beyond: a case that is found out while it is checked is not timed.
  virtual Depth deepest() const { return Depth::measure; }
};

struct benches {
  static constexpr const char* kind = "bench";
  struct Entry {
    std::shared_ptr<const Bench> bench;
  };
  template <class T>
  static Entry entry() {
    return {std::make_shared<const T>()};
  }
};
const Bench& bench_of(const Json& fields);  // by fields["kind"]

}  // namespace d5
