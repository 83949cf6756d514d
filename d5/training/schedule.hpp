// SPDX-License-Identifier: Apache-2.0
// The learning rate over a run, as a factor of the optimizer's own. One file each, with static members about and
// parameters(), made from the complete values; then D5_REGISTER(schedules, "cosine", Cosine);
// Lengths are in steps or in epochs, as the value `by` says; a length of 0 is the whole run. Epochs are counted with
// their fractions: a rate changes within them, too.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "d5/training/optimizer.hpp"

namespace d5 {

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual double factor(const Moment&) const = 0;
};

// How long a run is, for lengths of 0. Unknown where a run ends by accuracy or time: 0, and such a length is an error.
struct Horizon {
  Index epochs = 0, steps_per_epoch = 0;
  Index steps = 0;  // at most; 0: as many as the epochs have
};

// Position and length in the unit of `by`: what most schedules are a function of.
class Timeline {
 public:
  Timeline(const Attributes& values, const Horizon&, std::string_view schedule);
  bool by_epoch() const { return by_epoch_; }
  double at(const Moment&) const;     // steps, or epochs with their fractions, that are done
  double step() const;                // length of one step: 1, or its part of an epoch
  double length() const;              // of the whole; UsageError where nobody said
  double length(double given) const;  // 0: of the whole; UsageError below

 private:
  bool by_epoch_;
  Horizon horizon_;
  std::string place_;
};

struct ScheduleEntry {
  std::string about;
  std::vector<Parameter> parameters;
  std::function<std::unique_ptr<Schedule>(const Attributes&, const Timeline&)> make;
};

struct schedules {
  static constexpr const char* kind = "schedule";
  using Entry = ScheduleEntry;
  template <class T>
  static Entry entry() {
    return {T::about, T::parameters(), [](const Attributes& values, const Timeline& timeline) {
              return std::unique_ptr<Schedule>(std::make_unique<T>(values, timeline));
            }};
  }
};

struct ScheduleSettings {
  std::string name = "constant";
  Attributes values;  // its own; by = "step" or "epoch"; warmup, warmup_start: see below
};
// With warmup > 0 the schedule is multiplied by a line from warmup_start to 1 over that length.
// UsageError on unknown names and values, with the legal ones.
std::unique_ptr<Schedule> make_schedule(const ScheduleSettings&, const Horizon&);
// Whether its rates are others where the run has another length: it has a length of 0.
bool follows_length_of_run(const ScheduleSettings&);
// Its own values, by, warmup and warmup_start, with their defaults.
std::vector<Parameter> schedule_parameters(std::string_view name);

}  // namespace d5
