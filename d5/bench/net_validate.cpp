// SPDX-License-Identifier: Apache-2.0
// d5 net NETWORK --validate: what every node of a network made of the inputs it had, beside what the operators' own
// loops make of them in double (networks/validate.hpp). A fault is found at its node; the nodes behind it are not
// blamed.
#include <algorithm>
#include <cmath>

#include "d5/bench/fields.hpp"
#include "d5/bench/meters.hpp"
#include "d5/bench/net_case.hpp"
#include "d5/bench/net_problem.hpp"
#include "d5/bench/net_view.hpp"
#include "d5/bench/progress.hpp"
#include "d5/core/parallel.hpp"
#include "d5/graph/evaluate.hpp"
#include "d5/networks/validate.hpp"

namespace d5 {
namespace {

Json to_json(const Deviation& error) {
  return {{"l1", error.l1}, {"l2", error.l2}, {"linf", error.linf}, {"largest", error.largest}};
}

Json to_json(const NodeCheck& check) {
  Json json = {{"node", check.node},
               {"operator", check.op},
               {"value", check.value},
               {"pass", check.pass == Pass::forward ? "forward" : "backward"},
               {"error", to_json(check.error)},
               {"worst", check.error.worst},
               {"compared", check.compared},
               {"elements", check.error.elements},
               {"worst_share_of_tolerance", check.worst_share}};
  if (!check.reason.empty()) json["reason"] = check.reason;
  if (!check.skipped.empty()) json["skipped"] = check.skipped;
  return json;
}

// What metrics (pictures of the error) are shown: the values that deviate, the first few of them, or else the one that
// is nearest to its tolerance. A picture of every value of a deep network would be hundreds.
class Shown {
 public:
  explicit Shown(Meters& meters) : meters_(meters) {}

  void see(const NodeCheck& check, const CheckedResult& result) {
    if (!check.reason.empty()) {
      if (deviating_++ < most) meters_.see(named(result), 0);
      return;
    }
    if (deviating_ > 0 || check.worst_share < nearest_share_) return;
    nearest_share_ = check.worst_share;
    actual_ = result.actual.clone();
    at_.assign(result.at.begin(), result.at.end());
    expected_.assign(result.expected.begin(), result.expected.end());
    tolerance_.assign(result.tolerance.begin(), result.tolerance.end());
    name_ = result.name;
  }

  void finish() {
    if (deviating_ == 0 && actual_.present()) meters_.see(named({name_, actual_, at_, expected_, tolerance_}), 0);
  }

 private:
  static constexpr int most = 8;

  // A part of the name of a file; values of ONNX files are often named like paths.
  static CheckedResult named(CheckedResult result) {
    std::ranges::replace(result.name, '/', '-');
    return result;
  }

  Meters& meters_;
  int deviating_ = 0;
  double nearest_share_ = -1;
  std::string name_;
  Tensor actual_;
  std::vector<Index> at_;
  std::vector<double> expected_, tolerance_;
};

class ValidateSession final : public Session {
 public:
  explicit ValidateSession(Json fields) : fields_(std::move(fields)) {}

  void want(const MetricRequest& request) override { meters_ = Meters(request); }

  Outcome prepare(Depth depth) override {
    if (depth == Depth::list) return {};
    set_threads(fields_.at("threads").get<int>());
    if (auto off = open_backend_of(fields_, backend_)) return *off;
    const Graph graph = network_of(fields_);
    if (auto reason = why_no_inputs(graph)) return {.status = "unsupported", .reason = *reason};
    if (const auto why = why_evaluated(graph))
      return {.status = "unsupported",
              .reason = fmt::format("[validate] values between nodes cannot be read: {}", *why)};
    ValidateOptions options{.compile = net_compile_options(fields_), .seed = fields_.at("seed").get<uint64_t>()};
    if (auto reason = backend_->why_not(graph, options.compile)) return {.status = "unsupported", .reason = *reason};
    if (depth == Depth::build) return {};

    const NetProblem problem = make_net_inputs(graph, options.compile.mode, options.seed);
    std::map<std::string, Tensor> values(problem.parameters.begin(), problem.parameters.end());
    values.insert(problem.inputs.begin(), problem.inputs.end());
    Shown shown(meters_);
    options.see = [&](const NodeCheck& check, const CheckedResult& result) { shown.see(check, result); };
    options.progress = [](const Node& node, size_t done, size_t all) {
      report_progress("node " + node.name, static_cast<double>(done) / static_cast<double>(all));
    };
    const Validation validation = validate(graph, values, *backend_, options);
    if (!validation.unsupported.empty()) return {.status = "unsupported", .reason = validation.unsupported};
    shown.finish();
    Outcome outcome = judged(validation);
    for (const std::string& warning : warnings_of_sizes(graph, fields_)) outcome.details["warnings"].push_back(warning);
    meters_.report(outcome.details);
    return outcome;
  }

  SliceResult run(const Slice&) override { throw Error("[validate] this is not timed"); }
  Outcome finish() override { return {}; }

 private:
  static Outcome judged(const Validation& validation) {
    Outcome outcome;
    double l1 = 0, squares = 0, linf = 0, share = 0;
    Index compared = 0;
    size_t skipped = 0;
    Json nodes = Json::array();
    for (const NodeCheck& check : validation.checks) {
      nodes.push_back(to_json(check));
      skipped += !check.skipped.empty();
      l1 += check.error.l1;
      squares += check.error.l2 * check.error.l2;
      linf = std::max(linf, check.error.linf);
      share = std::max(share, check.worst_share);
      compared += check.compared;
    }
    outcome.details["nodes"] = std::move(nodes);
    outcome.details["check"] = {{"linf", linf},
                                {"l1", l1},
                                {"l2", std::sqrt(squares)},
                                {"worst_share_of_tolerance", share},
                                {"compared", compared}};
    if (validation.first) {
      const NodeCheck& first = validation.checks[*validation.first];
      outcome.details["first"] = *validation.first;
      outcome.status = "failed";
      outcome.reason = fmt::format("the first node that deviates is '{}' ({}, {}): {}", first.node, first.op,
                                   first.pass == Pass::forward ? "forward" : "backward", first.reason);
    } else if (compared == 0) {
      outcome.status = "mistrusted";
      outcome.reason = "nothing could be compared";
    } else if (skipped > 0) {
      outcome.details["skipped"] = skipped;
    }
    return outcome;
  }

  Json fields_;
  std::unique_ptr<Backend> backend_;
  Meters meters_;
};

class ValidateBench final : public NetView {
 public:
  ValidateBench() : NetView("net-validate", "--validate") {}
  std::unique_ptr<Session> open(const Json& fields) const override { return std::make_unique<ValidateSession>(fields); }
};

}  // namespace
D5_REGISTER(benches, "net-validate", ValidateBench);
}  // namespace d5
