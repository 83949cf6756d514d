// SPDX-License-Identifier: Apache-2.0
// A metric of one's own that listens to a network's steps: which operator took longest, and how long.
//   d5 net lenet --source examples/observer/slowest_operator.cpp --metric slowest_operator
#include <algorithm>
#include <map>
#include <mutex>

#include "d5/bench/step_observer.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {

class SlowestOperator final : public Meter, public StepObserver {
 public:
  std::string about() const override { return "time of the slowest operator in a step"; }
  std::string unit() const override { return "s"; }

  // ---- in the child, as steps run. Events may come from any thread.
  int steps() const override { return 10; }
  void node_begin(const Node&, Pass) override { begin_ = now_seconds(); }
  void node_end(const Node& node, Pass pass) override {
    const double seconds = now_seconds() - begin_;
    const std::lock_guard lock(mutex_);
    double& best = fastest_.try_emplace({node.name, pass}, seconds).first->second;
    best = std::min(best, seconds);
  }
  nlohmann::json report(const std::string&) override {
    if (fastest_.empty()) return nullptr;
    const auto slowest = std::ranges::max_element(fastest_, {}, [](const auto& entry) { return entry.second; });
    return {{"node", slowest->first.first},
            {"pass", slowest->first.second == Pass::forward ? "forward" : "backward"},
            {"seconds", slowest->second}};
  }

  // ---- in the parent: one number for the record and the table
  std::optional<Metric> value(const Measured& m) const override {
    if (m.reports.empty()) return std::nullopt;
    return Metric{.unit = unit(), .median = m.reports.back().at("seconds").get<double>(), .n = m.reports.size()};
  }

 private:
  static thread_local inline double begin_ = 0;
  std::mutex mutex_;
  std::map<std::pair<std::string, Pass>, double> fastest_;  // over steps
};

D5_REGISTER(metrics, "slowest_operator", SlowestOperator);

}  // namespace d5
