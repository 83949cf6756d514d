// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_trace.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "d5/backends/wrapped_backend.hpp"
#include "d5/distributed/rank_clock.hpp"
#include "d5/measure/clock.hpp"
#include "d5/report/trace.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

constexpr Index traced_steps = 5, usual_first = 12;  // steps 13 to 17 overlap as most do (distributed/overlap.cpp)
constexpr int tag = 8;

}  // namespace

class TrainTrace::Work final : public TrainingEvents, public Observer, public CommunicationListener {
 public:
  Work(const std::string& file, Communicator* communicator, Index steps)
      : communicator_(communicator), first_(steps >= usual_first + traced_steps ? usual_first : 0) {
    if (!communicator || communicator->rank() == 0) file_.emplace(file);
    if (communicator) clock_.emplace(*communicator);
    thread_number();
    spans_.reserve(1 << 14);
    if (communicator) communicator->listen(this);
  }
  ~Work() override {
    if (communicator_) communicator_->listen(nullptr);
  }

  // ---- what goes by
  void before(TrainingEvent event, const TrainingView& view) override {
    if (event == TrainingEvent::sampling && !step_open_) {
      watches_ = !view.testing && view.step >= first_ && view.step < first_ + traced_steps;
      if (!watches_) return;
      step_open_ = true;
      begin(fmt::format("step {}", view.step + 1), "step");
    }
    if (const auto shown = name_of(event); watches_ && shown) begin(shown->first, shown->second);
  }
  void after(TrainingEvent event, const TrainingView&) override {
    if (!watches_) return;
    if (name_of(event)) end();
    if (event != TrainingEvent::optimizer_step) return;
    end();
    watches_ = step_open_ = false;
  }
  void pass_begin(Pass pass) {
    if (watches_) begin(pass == Pass::forward ? "forward" : "backward", "pass");
  }
  void pass_end() {
    if (watches_) end();
  }
  bool watches() const { return watches_; }
  void node_begin(const Node& node, Pass pass) override {
    begin(node.name, "operator", {{"operator", node.op}, {"pass", pass == Pass::forward ? "forward" : "backward"}});
  }
  void node_end(const Node&, Pass) override { end(); }
  void ran(const Operation& op, double begin_s, double end_s) override {
    if (!watches_) return;
    const double megabytes = static_cast<double>(total_bytes(op, communicator_->size())) * 1e-6;
    add(fmt::format("{} {:.3g} MB", name(op.collective), megabytes), "communication", begin_s, end_s,
        {{"algorithm", op.algorithm}, {"elements", op.count}});
  }
  void waited(double begin_s, double end_s) override {
    if (watches_) add("wait for communication", "waiting", begin_s, end_s, Json::object());
  }

  // ---- all ranks' together
  Json write() {
    watches_ = false;
    Json clocks;
    if (clock_) {
      clock_->read();
      for (TraceSpan& span : spans_) {
        span.begin_s = clock_->to_rank_0(span.begin_s);
        span.end_s = clock_->to_rank_0(span.end_s);
      }
      clocks = clock_->describe();
    }
    std::ranges::stable_sort(spans_, [](const TraceSpan& a, const TraceSpan& b) {
      return a.begin_s != b.begin_s ? a.begin_s < b.begin_s : a.end_s > b.end_s;
    });
    const int ranks = communicator_ ? communicator_->size() : 1;
    const bool writes = file_.has_value();
    double origin = spans_.empty() ? 0 : spans_.front().begin_s;
    std::vector<std::vector<TraceSpan>> all(static_cast<size_t>(ranks));
    if (writes) all[0] = spans_;
    for (int other = 1; other < ranks; ++other) {
      const auto place = static_cast<size_t>(other);
      all[place] = moved(other);
      if (!all[place].empty()) origin = std::min(origin, all[place].front().begin_s);
    }
    if (!writes) return clocks;
    for (int rank = 0; rank < ranks; ++rank)
      file_->add(trace_events(all[static_cast<size_t>(rank)], origin, rank + 1, fmt::format("rank {}", rank),
                              {{1, "training"}, {2, "communication"}}));
    return clocks;
  }

 private:
  using Shown = std::pair<const char*, const char*>;
  static std::optional<Shown> name_of(TrainingEvent event) {
    switch (event) {
      case TrainingEvent::sampling: return Shown{"input", "input"};
      case TrainingEvent::batch: return Shown{"batch", "batch"};
      case TrainingEvent::optimizer_step: return Shown{"optimizer", "optimizer"};
      default: return {};
    }
  }

  // The rank's own is 1, that of communication 2.
  int thread_number() {
    const auto self = std::this_thread::get_id();
    return threads_.try_emplace(self, static_cast<int>(threads_.size()) + 1).first->second;
  }
  void begin(std::string name, const char* category, Json arguments = Json::object()) {
    const std::scoped_lock lock(mutex_);
    const int thread = thread_number();
    open_[thread].push_back(spans_.size());
    const double now = now_seconds();
    spans_.push_back({std::move(name), category, now, now, thread, std::move(arguments)});
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    std::vector<size_t>& open = open_[thread_number()];
    if (open.empty()) return;
    spans_[open.back()].end_s = now_seconds();
    open.pop_back();
  }
  void add(std::string name, const char* category, double begin_s, double end_s, Json arguments) {
    const std::scoped_lock lock(mutex_);
    spans_.push_back({std::move(name), category, begin_s, end_s, thread_number(), std::move(arguments)});
  }

  // The spans of `other` on rank 0.
  std::vector<TraceSpan> moved(int other) {
    std::string text;
    uint64_t bytes = 0;
    if (communicator_->rank() == other) {
      Json rows = Json::array();
      for (const TraceSpan& s : spans_) rows.push_back({s.name, s.category, s.begin_s, s.end_s, s.thread, s.arguments});
      text = rows.dump(-1, ' ', false, Json::error_handler_t::replace);
      bytes = text.size();
      communicator_->send(0, &bytes, sizeof bytes, tag).wait();
      communicator_->send(0, text.data(), text.size(), tag).wait();
      return {};
    }
    if (communicator_->rank() != 0) return {};
    communicator_->receive(other, &bytes, sizeof bytes, tag).wait();
    text.resize(bytes);
    communicator_->receive(other, text.data(), text.size(), tag).wait();
    std::vector<TraceSpan> spans;
    for (const Json& row : Json::parse(text))
      spans.push_back({row[0], row[1], row[2].get<double>(), row[3].get<double>(), row[4].get<int>(), row[5]});
    return spans;
  }

  Communicator* communicator_;
  Index first_;
  std::optional<TraceFile> file_;
  std::optional<RankClock> clock_;
  std::atomic<bool> watches_{false};
  bool step_open_ = false;
  std::mutex mutex_;
  std::vector<TraceSpan> spans_;
  std::map<int, std::vector<size_t>> open_;  // by thread, the innermost last
  std::map<std::thread::id, int> threads_;
};

namespace {

// Two observers as one.
class Both final : public Observer {
 public:
  Both(Observer& first, Observer* second) : first_(first), second_(second) {}
  void node_begin(const Node& node, Pass pass) override {
    first_.node_begin(node, pass);
    if (second_) second_->node_begin(node, pass);
  }
  void node_end(const Node& node, Pass pass) override {
    first_.node_end(node, pass);
    if (second_) second_->node_end(node, pass);
  }
  void gradient_ready(const Gradient& gradient) override {
    first_.gradient_ready(gradient);
    if (second_) second_->gradient_ready(gradient);
  }

 private:
  Observer& first_;
  Observer* second_;
};

template <class Watcher>
class WatchedExecutable final : public WrappedExecutable {
 public:
  WatchedExecutable(std::unique_ptr<Executable> inner, std::shared_ptr<Watcher> watcher)
      : WrappedExecutable(std::move(inner)), watcher_(std::move(watcher)) {}
  void forward(const Run& run) override {
    pass(run, Pass::forward, [&](const Run& with) { inner_->forward(with); });
  }
  void backward(const Run& run) override {
    pass(run, Pass::backward, [&](const Run& with) { inner_->backward(with); });
  }

 private:
  template <class F>
  void pass(const Run& run, Pass which, const F& act) {
    if (!watcher_->watches()) return act(run);
    Both both(*watcher_, run.observer);
    Run with = run;
    with.observer = &both;
    watcher_->pass_begin(which);
    act(with);
    watcher_->pass_end();
  }
  std::shared_ptr<Watcher> watcher_;
};

template <class Watcher>
class WatchedBackend final : public WrappedBackend {
 public:
  WatchedBackend(std::unique_ptr<Backend> inner, std::shared_ptr<Watcher> watcher)
      : WrappedBackend(std::move(inner)), watcher_(std::move(watcher)) {}
  std::unique_ptr<Executable> compile(const Graph& graph, ParameterSet& set, const CompileOptions& options) override {
    auto real = inner_->compile(graph, set, options);
    if (options.mode != Mode::training) return real;
    return std::make_unique<WatchedExecutable<Watcher>>(std::move(real), watcher_);
  }

 private:
  std::shared_ptr<Watcher> watcher_;
};

}  // namespace

TrainTrace::TrainTrace(const std::string& file, Communicator* communicator, Index steps)
    : work_(std::make_shared<Work>(file, communicator, steps)) {}
TrainTrace::~TrainTrace() = default;
TrainingEvents& TrainTrace::events() { return *work_; }
std::unique_ptr<Backend> TrainTrace::watched(std::unique_ptr<Backend> inner) {
  return std::make_unique<WatchedBackend<Work>>(std::move(inner), work_);
}
Json TrainTrace::write() { return work_->write(); }

}  // namespace d5
