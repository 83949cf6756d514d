// SPDX-License-Identifier: Apache-2.0
// Ends a rank in the middle of a training: for tests of what happens then. Once, the first time that `mark` can be
// made.
//   --events kill:rank=1:phase=backward:step=7:mark=FILE:how=kill
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "d5/training/events.hpp"

namespace {

using namespace d5;

class Kill final : public TrainingEvents {
 public:
  static constexpr bool on_all_ranks = true;

  explicit Kill(const Attributes& values)
      : rank_(number(values, "rank")),
        step_(number(values, "step")),
        microseconds_(number(values, "microseconds")),
        phase_(values.text("phase", "")),
        how_(values.text("how", "kill")),
        mark_(values.text("mark", "")) {}

  void before(TrainingEvent event, const TrainingView& view) override {
    if (name(event) == phase_ && !view.testing) meet(view);
  }
  void after(TrainingEvent event, const TrainingView& view) override {
    if (phase_ == "update" && event == TrainingEvent::optimizer_step) meet(view);
  }

 private:
  static int number(const Attributes& values, const std::string& name) {
    return std::atoi(values.text(name, "0").c_str());
  }
  void meet(const TrainingView& view) {
    if (view.rank != rank_ || view.step != step_) return;
    const int made = open(mark_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (made < 0) return;
    close(made);
    if (how_ == "raise") throw Error("a planted fault on rank {}", rank_);
    const int signal_number = how_ == "stop" ? SIGSTOP : SIGKILL;
    if (microseconds_ == 0) {
      kill(getpid(), signal_number);
      return;
    }
    std::thread([this, signal_number] {  // somewhere within what follows
      std::this_thread::sleep_for(std::chrono::microseconds(microseconds_));
      kill(getpid(), signal_number);
    })
        .detach();
  }
  int rank_, step_, microseconds_;
  std::string phase_, how_, mark_;
};

}  // namespace

D5_REGISTER(training_events, "kill", Kill);
