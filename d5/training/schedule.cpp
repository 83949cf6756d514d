// SPDX-License-Identifier: Apache-2.0
#include "d5/training/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

// factor = (start + (1 - start) min(1, (t + one step) / length)) * that of the schedule within
class WarmUp final : public Schedule {
 public:
  WarmUp(std::unique_ptr<Schedule> within, const Timeline& timeline, double length, double start)
      : within_(std::move(within)), timeline_(timeline), length_(length), start_(start) {}
  double factor(const Moment& moment) const override {
    const double risen = std::min(1.0, (timeline_.at(moment) + timeline_.step()) / length_);
    return (start_ + (1 - start_) * risen) * within_->factor(moment);
  }

 private:
  std::unique_ptr<Schedule> within_;
  Timeline timeline_;
  double length_, start_;
};

}  // namespace

Timeline::Timeline(const Attributes& values, const Horizon& horizon, std::string_view schedule)
    : horizon_(horizon), place_(fmt::format("[{}]", schedule)) {
  const std::string by = values.text("by", "epoch");
  const std::vector<std::string> legal{"epoch", "step"};
  if (std::ranges::find(legal, by) == legal.end()) fail_unknown(place_, "by", by, legal);
  by_epoch_ = by == "epoch";
}

double Timeline::at(const Moment& moment) const {
  return by_epoch_ ? static_cast<double>(moment.epoch) + moment.epoch_progress : static_cast<double>(moment.step - 1);
}

double Timeline::step() const {
  if (!by_epoch_) return 1;
  return horizon_.steps_per_epoch > 0 ? 1 / static_cast<double>(horizon_.steps_per_epoch) : 0;
}

double Timeline::length() const {
  Index steps = horizon_.epochs * horizon_.steps_per_epoch;
  if (horizon_.steps > 0 && (steps == 0 || horizon_.steps < steps)) steps = horizon_.steps;
  double whole = static_cast<double>(steps);
  if (by_epoch_)
    whole = steps == 0 || horizon_.steps_per_epoch == 0 ? static_cast<double>(horizon_.epochs)
                                                        : whole / static_cast<double>(horizon_.steps_per_epoch);
  if (whole <= 0)
    throw UsageError("{} length is 0, the whole run, and nobody knows how long that is; give it in {}", place_,
                     by_epoch_ ? "epochs" : "steps");
  return whole;
}

double Timeline::length(double given) const {
  if (!(given >= 0)) throw UsageError("{} length is {}; 0 (the whole run) and more are legal", place_, given);
  return given > 0 ? given : length();
}

std::vector<Parameter> schedule_parameters(std::string_view name) {
  std::vector<Parameter> all = registered<schedules>(name).parameters;
  if (std::ranges::find(all, "by", &Parameter::name) == all.end())
    all.push_back({"by", "the unit of lengths: epoch or step", std::string("epoch")});
  all.push_back({"warmup", "length of the rise to the full rate; 0: none", 0.0});
  all.push_back({"warmup_start", "the factor from which it rises", 0.0});
  return all;
}

std::unique_ptr<Schedule> make_schedule(const ScheduleSettings& settings, const Horizon& horizon) {
  const Attributes values = complete_values(settings.name, schedule_parameters(settings.name), settings.values);
  const Timeline timeline(values, horizon, settings.name);
  auto schedule = registered<schedules>(settings.name).make(values, timeline);
  const double warmup = values.real("warmup", 0);
  if (!(warmup >= 0)) throw UsageError("[{}] warmup is {}; 0 and more are legal", settings.name, warmup);
  if (warmup == 0) return schedule;
  return std::make_unique<WarmUp>(std::move(schedule), timeline, warmup, values.real("warmup_start", 0));
}

bool follows_length_of_run(const ScheduleSettings& settings) {
  const Attributes values = complete_values(settings.name, schedule_parameters(settings.name), settings.values);
  return values.has("length") && values.real("length", 0) == 0;
}

}  // namespace d5
