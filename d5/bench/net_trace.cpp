// SPDX-License-Identifier: Apache-2.0
// One step as spans: the executor's step, its passes, each operator, and gradients as they become ready. Times are the
// host's: on a device an operator's span is the time it took to launch it, and the wait is at the end of the step.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <thread>

#include "d5/bench/step_observer.hpp"
#include "d5/measure/clock.hpp"
#include "d5/report/trace.hpp"

namespace d5 {
namespace {

class Trace final : public Meter, public StepObserver {
 public:
  std::string about() const override { return "Chrome/Perfetto trace of one step, beside the records"; }
  std::string unit() const override { return "spans"; }

  // ---- events: written to a place that was reserved, so that nobody waits
  int steps() const override { return 1; }
  void network(const Graph& graph, const CompileOptions& options) override {
    specs_ = infer_some_specs(graph).specs;
    device_ = options.device;
    // Two passes, a begin and an end each, and as many again where a backend puts steps of its own between.
    events_ = std::vector<Event>(64 + 16 * graph.nodes.size() + graph.inputs.size());
  }
  void step_begin() override {
    next_ = 0;
    note({.what = What::step_begin});
  }
  void step_end() override {
    note({.what = What::step_end});
    make_spans();
  }
  void pass_begin(Pass pass) override { note({.what = What::pass_begin, .pass = pass}); }
  void pass_end(Pass pass) override { note({.what = What::pass_end, .pass = pass}); }
  void node_begin(const Node& node, Pass pass) override {
    note({.what = What::node_begin, .pass = pass, .node = &node});
  }
  void node_end(const Node& node, Pass pass) override { note({.what = What::node_end, .pass = pass, .node = &node}); }
  void gradient_ready(const Gradient& gradient) override {
    note({.what = What::gradient, .pass = Pass::backward, .parameter = gradient.parameter});
  }

  // ---- what is said of it
  nlohmann::json report(const std::string& prefix) override {
    if (spans_.empty()) return nullptr;
    if (operators_ == 0) return {{"unavailable", "this backend does not tell when its operators begin and end"}};
    const std::string path = prefix + ".json";
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    TraceFile file(path);
    file.add(trace_events(spans_, spans_.front().begin_s, 1, "step"));
    return {{"file", std::filesystem::path(path).filename()},
            {"spans", spans_.size()},
            {"operators", operators_},
            {"step_s", spans_.front().end_s - spans_.front().begin_s},
            {"operators_s", operators_s_},
            {"lost", lost_}};
  }
  std::optional<Metric> value(const Measured& m) const override {
    if (m.reports.empty()) return std::nullopt;
    return Metric{.unit = unit(), .median = m.reports.back().at("spans").get<double>(), .n = m.reports.size()};
  }

 private:
  enum class What { step_begin, step_end, pass_begin, pass_end, node_begin, node_end, gradient };
  struct Event {
    What what = What::step_begin;
    Pass pass = Pass::forward;
    const Node* node = nullptr;
    std::string_view parameter = {};
    double time = 0;
    std::thread::id thread = {};
  };

  void note(Event event) {
    const size_t place = next_.fetch_add(1, std::memory_order_relaxed);
    if (place >= events_.size()) return;
    event.thread = std::this_thread::get_id();
    event.time = now_seconds();
    events_[place] = event;
  }

  nlohmann::json arguments_of(const Node& node, Pass pass) const {
    const auto shown = [&](const std::vector<std::string>& names) {
      nlohmann::json all = nlohmann::json::array();
      for (const std::string& name : names) {
        const auto spec = specs_.find(name);
        all.push_back(spec == specs_.end() ? name : name + " " + to_string(spec->second));
      }
      return all;
    };
    return {{"operator", node.op},
            {"pass", pass == Pass::forward ? "forward" : "backward"},
            {"inputs", shown(node.inputs)},
            {"outputs", shown(node.outputs)}};
  }

  // The step first, then its parts in the order in which they began; each thread's begins and ends are pairs.
  void make_spans() {
    const size_t seen = std::min<size_t>(next_, events_.size());
    lost_ = next_ - seen;
    spans_.clear();
    operators_ = 0;
    operators_s_ = 0;
    std::map<std::thread::id, int> threads;
    std::map<int, std::vector<size_t>> open;  // spans, the innermost last
    for (size_t i = 0; i < seen; ++i) {
      const Event& event = events_[i];
      const int thread = threads.try_emplace(event.thread, static_cast<int>(threads.size()) + 1).first->second;
      TraceSpan span{.begin_s = event.time, .end_s = event.time, .thread = thread};
      switch (event.what) {
        case What::step_begin:
          span.name = "step";
          span.category = "executor";
          if (device_ != "cpu") span.arguments["times"] = "of the host: a span is a launch, not the work on " + device_;
          break;
        case What::pass_begin:
          span.name = event.pass == Pass::forward ? "forward" : "backward";
          span.category = "pass";
          break;
        case What::node_begin:
          span.name = event.node->name;
          span.category = "operator";
          span.arguments = arguments_of(*event.node, event.pass);
          break;
        case What::gradient:
          span.name = fmt::format("gradient of {}", event.parameter);
          span.category = "instant";
          spans_.push_back(std::move(span));
          continue;
        default: close(open[thread], event.time); continue;
      }
      open[thread].push_back(spans_.size());
      spans_.push_back(std::move(span));
    }
    for (auto& [thread, inside] : open)
      while (!inside.empty()) close(inside, events_[seen - 1].time);
    events_.clear();
  }

  void close(std::vector<size_t>& open, double time) {
    if (open.empty()) return;
    TraceSpan& span = spans_[open.back()];
    open.pop_back();
    span.end_s = time;
    if (span.category != "operator") return;
    ++operators_;
    operators_s_ += span.end_s - span.begin_s;
  }

  Specs specs_;
  std::string device_;
  std::vector<Event> events_;
  std::atomic<size_t> next_ = 0;
  std::vector<TraceSpan> spans_;
  size_t operators_ = 0, lost_ = 0;
  double operators_s_ = 0;
};

}  // namespace
D5_REGISTER(metrics, "trace", Trace);
}  // namespace d5
