// SPDX-License-Identifier: Apache-2.0
// d5 net NETWORK --context: each kind of operator (what it computes, on which shapes) in the network beside the same
// operator alone, with hot and with cold caches.
//
// In situ times are means over the same steps, the middle half of all that were observed, so they add up:
//   sum of the operators + what is outside of them = the whole step
#include <algorithm>
#include <map>
#include <set>

#include "d5/bench/net_alone.hpp"
#include "d5/bench/net_view.hpp"
#include "d5/bench/progress.hpp"
#include "d5/bench/times_itself.hpp"
#include "d5/graph/evaluate.hpp"
#include "d5/measure/interquartile_mean.hpp"

namespace d5 {
namespace {

constexpr double observed_seconds = 2;
constexpr size_t fewest_steps = 12, most_steps = 400;

// Seconds of every node and pass, step by step.
class InSitu final : public StepObserver {
 public:
  struct Seen {
    Node node;
    Pass pass;
    std::vector<double> seconds;  // one a step
  };

  void step_begin() override {
    for (Seen& seen : seen_) seen.seconds.push_back(0);
    step_begin_ = now_seconds();
  }
  void step_end() override { steps_.push_back(now_seconds() - step_begin_); }
  void node_begin(const Node& node, Pass pass) override {
    const auto [place, is_new] = places_.try_emplace({&node, pass}, seen_.size());
    if (is_new) seen_.push_back({node, pass, std::vector<double>(steps_.size() + 1)});
    current_ = place->second;
    begin_ = now_seconds();
  }
  void node_end(const Node&, Pass) override { seen_[current_].seconds.back() += now_seconds() - begin_; }

  const std::vector<Seen>& seen() const { return seen_; }
  const std::vector<double>& durations() const { return steps_; }

 private:
  std::map<std::pair<const Node*, Pass>, size_t> places_;
  std::vector<Seen> seen_;
  std::vector<double> steps_;
  size_t current_ = 0;
  double step_begin_ = 0, begin_ = 0;
};

// Nodes that compute the same on the same shapes.
struct Row {
  std::string op, shapes;
  Pass pass;
  std::vector<size_t> members;  // of the graph: the first such node, or those that run together with it; empty: unknown
  std::string first;            // its name
  size_t nodes = 0;
  double in_situ_s = 0, flops = 0;
};

class ContextSession final : public Session {
 public:
  explicit ContextSession(const Json& fields) : top_(fields.at("top").get<size_t>()), net_(as_net(fields)) {}

  Outcome prepare(Depth depth) override {
    if (depth == Depth::list) return {};
    Outcome outcome = net_.open(depth);
    if (depth == Depth::build || (outcome.status != "passed" && outcome.status != "mistrusted")) return outcome;
    if (const auto why = why_evaluated(net_.graph()))
      return {.status = "unsupported", .reason = fmt::format("[context] no operator can be taken out: {}", *why)};
    if (dynamic_cast<TimesItself*>(&net_.executable())) return {.status = "unsupported", .reason = silent};
    observe(outcome.details);
    if (rows_.empty()) return {.status = "unsupported", .reason = silent};
    add_rows(outcome.details);
    const Outcome after = net_.check_again();
    if (after.status != "passed") return after;
    return outcome;
  }
  SliceResult run(const Slice&) override { throw Error("[context] this is timed while it is prepared"); }
  Outcome finish() override { return {}; }

 private:
  static constexpr const char* silent = "this backend does not tell when its operators begin and end";

  static Json as_net(Json fields) {
    fields["kind"] = "net";
    fields.erase("top");
    return fields;
  }

  // Observed steps and others in turn: the difference is what observing costs.
  void observe(Json& details) {
    report_progress("steps", 0);
    InSitu in_situ;
    std::vector<double> alone;
    for (int i = 0; i < 2; ++i) net_.step();
    net_.backend().synchronize();
    const double begin = now_seconds();
    while (alone.size() < fewest_steps || (alone.size() < most_steps && now_seconds() - begin < observed_seconds)) {
      const double step_begin = now_seconds();
      net_.step();
      net_.backend().synchronize();
      alone.push_back(now_seconds() - step_begin);
      net_.step(in_situ);
    }
    const std::vector<size_t> kept = middle_half(in_situ.durations());
    const auto mean = [&](const std::vector<double>& seconds) {
      double sum = 0;
      for (const size_t i : kept) sum += seconds[i];
      return sum / static_cast<double>(kept.size());
    };
    const double whole = mean(in_situ.durations());
    double operators = 0, flops = 0;
    for (const InSitu::Seen& seen : in_situ.seen()) {
      Row& row = row_of(seen.node, seen.pass);
      ++row.nodes;
      row.in_situ_s += mean(seen.seconds);
      operators += mean(seen.seconds);
    }
    for (const Row& row : rows_) flops += row.flops;
    std::ranges::stable_sort(rows_, [](const Row& a, const Row& b) { return a.in_situ_s > b.in_situ_s; });
    details["context"] = {{"steps", in_situ.durations().size()},
                          {"steps_kept", kept.size()},
                          {"whole_s", whole},
                          {"operators_s", operators},
                          {"residual_s", whole - operators},
                          {"unobserved_s", interquartile_mean(alone)},
                          {"flops", flops}};
  }

  static std::vector<size_t> middle_half(const std::vector<double>& steps) {
    std::vector<size_t> order(steps.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return steps[a] < steps[b]; });
    const auto outside = static_cast<long>(order.size() / 4);
    return {order.begin() + outside, order.end() - outside};
  }

  Row& row_of(const Node& shown, Pass pass) {
    if (specs_.empty()) specs_ = infer_specs(net_.graph());
    const std::vector<size_t> members = nodes_shown_as(net_.graph(), shown.name);
    std::string shapes, key = fmt::format("{} {}", shown.op, pass == Pass::forward);
    double flops = 0;
    for (const size_t n : members) {
      const Node& node = net_.graph().nodes[n];
      const auto in = specs_of(specs_, node.inputs);
      flops += make_operator(node)->cost(in, pass).flops;
      for (const TensorSpec& spec : in) key += " " + (spec.present ? to_string(spec) : "-");
      key += to_json(node.attributes).dump();
      if (n == members.front()) shapes = shapes_text(in);
    }
    if (!members.empty()) {
      const TensorSpec& result = specs_.at(net_.graph().nodes[members.back()].outputs[0]);
      shapes += " -> " + to_string(result.shape);
    }
    const auto [place, is_new] = places_.try_emplace(key, rows_.size());
    if (is_new) rows_.push_back({shown.op, shapes, pass, members, shown.name});
    rows_[place->second].flops += flops;
    return rows_[place->second];
  }

  static std::string shapes_text(const std::vector<TensorSpec>& specs) {
    std::string text;
    for (const TensorSpec& spec : specs)
      if (spec.present && spec.shape.rank() > 1) text += (text.empty() ? "" : ", ") + to_string(spec.shape);
    return text.empty() && !specs.empty() ? to_string(specs[0].shape) : text;
  }

  void add_rows(Json& details) {
    const size_t shown = std::min(rows_.size(), top_);
    std::set<size_t> nodes;
    for (size_t i = 0; i < shown; ++i) nodes.insert(rows_[i].members.begin(), rows_[i].members.end());
    AloneTimer timer(net_, nodes);
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      Json json = {{"operator", row.op},   {"pass", row.pass == Pass::forward ? "forward" : "backward"},
                   {"shapes", row.shapes}, {"first", row.first},
                   {"nodes", row.nodes},   {"in_situ_s", row.in_situ_s},
                   {"flops", row.flops}};
      if (i < shown) {
        report_progress(row.op + " alone", static_cast<double>(i) / static_cast<double>(shown));
        add_alone(timer, row, json);
      }
      details["context"]["rows"].push_back(std::move(json));
    }
  }

  static void add_alone(AloneTimer& timer, const Row& row, Json& json) {
    const AloneTimes times =
        row.members.empty() ? AloneTimes{.why_not = "a step of the executor's own"} : timer.time(row.members, row.pass);
    if (!times.why_not.empty()) {
      json["alone"] = times.why_not;
      return;
    }
    json["hot_s"] = times.hot_s;
    json["cold_s"] = times.cold_s;
    json["hot_samples"] = times.hot_samples;
    json["cold_samples"] = times.cold_samples;
  }

  size_t top_;
  NetRun net_;
  Specs specs_;
  std::vector<Row> rows_;
  std::map<std::string, size_t> places_;
};

class ContextBench final : public NetView {
 public:
  ContextBench() : NetView("net-context", "--context", {{"top", 10}}) {}
  std::unique_ptr<Session> open(const Json& fields) const override { return std::make_unique<ContextSession>(fields); }
};

}  // namespace
D5_REGISTER(benches, "net-context", ContextBench);
}  // namespace d5
