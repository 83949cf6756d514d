// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/train_replay.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "d5/backends/wrapped_backend.hpp"
#include "d5/distributed/communicator.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int turns = 7, tag = 7;

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// When each gradient came, from the beginning of backward.
class Notes final : public Observer {
 public:
  void begin() {
    begin_ = now_seconds();
    seen.clear();
  }
  void gradient_ready(const Gradient& gradient) override {
    const std::scoped_lock lock(mutex_);
    seen.push_back({std::string(gradient.parameter), gradient.range, now_seconds() - begin_});
  }
  struct Note {
    std::string parameter;
    ParameterSet::Range range;
    double seconds = 0;
  };
  std::vector<Note> seen;

 private:
  double begin_ = 0;
  std::mutex mutex_;
};

class ReplayedExecutable final : public WrappedExecutable {
 public:
  ReplayedExecutable(std::unique_ptr<Executable> inner, Communicator& communicator)
      : WrappedExecutable(std::move(inner)), communicator_(communicator) {}

  void forward(const Run& run) override {
    if (!known_) learn(run);
    const auto begin = Clock::now();
    std::this_thread::sleep_until(begin + to_clock(forward_s_));
  }
  void backward(const Run& run) override {
    const auto begin = Clock::now();
    for (const Notes::Note& note : notes_) {
      if (!run.observer) break;
      std::this_thread::sleep_until(begin + to_clock(note.seconds));
      run.observer->gradient_ready({.parameter = note.parameter, .range = note.range});
    }
    std::this_thread::sleep_until(begin + to_clock(backward_s_));
  }

 private:
  static Clock::duration to_clock(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  void compute(const Run& run, Notes* notes) {
    Run with = run;
    with.observer = nullptr;
    inner_->forward(with);
    with.observer = notes;
    if (notes) notes->begin();
    inner_->backward(with);
  }

  // Every rank computes once, so that its buffers hold something; then rank 0 takes the times, and nobody disturbs it.
  void learn(const Run& run) {
    known_ = true;
    compute(run, nullptr);
    communicator_.barrier();
    std::string text;
    if (communicator_.rank() == 0) {
      take_times(run);
      text = as_text();
    }
    share(text);
    if (communicator_.rank() != 0) from_text(text);
    communicator_.barrier();
  }

  void take_times(const Run& run) {
    std::vector<double> forward, backward;
    std::vector<std::vector<double>> came;
    for (int turn = 0; turn < turns; ++turn) {
      Notes notes;
      Run with = run;
      with.observer = nullptr;
      const double begin = now_seconds();
      inner_->forward(with);
      forward.push_back(now_seconds() - begin);
      with.observer = &notes;
      notes.begin();
      const double back = now_seconds();
      inner_->backward(with);
      backward.push_back(now_seconds() - back);
      notes_ = notes.seen;
      came.resize(notes_.size());
      for (size_t i = 0; i < notes_.size(); ++i) came[i].push_back(notes_[i].seconds);
    }
    forward_s_ = median_of(forward);
    backward_s_ = median_of(backward);
    for (size_t i = 0; i < notes_.size(); ++i) notes_[i].seconds = median_of(came[i]);
  }

  std::string as_text() const {
    Json notes = Json::array();
    for (const Notes::Note& note : notes_)
      notes.push_back({note.parameter, note.range.first, note.range.count, note.seconds});
    return Json{{"forward", forward_s_}, {"backward", backward_s_}, {"notes", notes}}.dump();
  }
  void from_text(const std::string& text) {
    const Json told = Json::parse(text);
    forward_s_ = told.at("forward");
    backward_s_ = told.at("backward");
    notes_.clear();
    for (const Json& note : told.at("notes"))
      notes_.push_back(
          {note[0].get<std::string>(), {note[1].get<Index>(), note[2].get<Index>()}, note[3].get<double>()});
  }

  // Who waits sleeps.
  static void wait(Request request) {
    while (!request.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void share(std::string& text) {
    uint64_t bytes = text.size();
    for (int other = 1; other < communicator_.size(); ++other) {
      if (communicator_.rank() == 0) {
        wait(communicator_.send(other, &bytes, sizeof bytes, tag));
        wait(communicator_.send(other, text.data(), text.size(), tag));
      } else if (communicator_.rank() == other) {
        wait(communicator_.receive(0, &bytes, sizeof bytes, tag));
        text.resize(bytes);
        wait(communicator_.receive(0, text.data(), text.size(), tag));
      }
    }
  }

  Communicator& communicator_;
  bool known_ = false;
  double forward_s_ = 0, backward_s_ = 0;
  std::vector<Notes::Note> notes_;
};

class ReplayedBackend final : public WrappedBackend {
 public:
  ReplayedBackend(std::unique_ptr<Backend> inner, Communicator& communicator)
      : WrappedBackend(std::move(inner)), communicator_(communicator) {}
  std::unique_ptr<Executable> compile(const Graph& graph, ParameterSet& set, const CompileOptions& options) override {
    std::unique_ptr<Executable> real = inner_->compile(graph, set, options);
    if (options.mode != Mode::training) return real;
    return std::make_unique<ReplayedExecutable>(std::move(real), communicator_);
  }

 private:
  Communicator& communicator_;
};

}  // namespace

std::unique_ptr<Backend> replayed_backend(std::unique_ptr<Backend> inner, Communicator* communicator) {
  if (!communicator) return inner;
  return std::make_unique<ReplayedBackend>(std::move(inner), *communicator);
}

}  // namespace d5
