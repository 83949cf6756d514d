// SPDX-License-Identifier: Apache-2.0
#include "d5/training/trajectory.hpp"

#include <cmath>
#include <filesystem>

namespace d5 {
namespace {

constexpr const char* unfinished = ".part";

}  // namespace

ParameterDistance distance_between(const Tensor& a, const Tensor& b, const std::string& name) {
  if (!(a.shape() == b.shape()))
    throw Error("[trajectory] '{}' is {} here and {} in the baseline", name, to_string(a.shape()),
                to_string(b.shape()));
  const auto x = a.values<float>(), y = b.values<float>();
  ParameterDistance result;
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double difference = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    squares += difference * difference;
    if (difference > result.linf || std::isnan(difference)) result.linf = difference;
  }
  result.l2 = std::sqrt(squares);
  return result;
}

Trajectory::Trajectory(std::string folder, Index every, std::string about)
    : folder_(std::move(folder)), about_(std::move(about)), every_(every) {
  is_baseline_ = !std::filesystem::exists(folder_);
  if (!is_baseline_) {
    baseline_ = read_checkpoint(file_of(0)).about;
    return;
  }
  baseline_ = about_;
  std::filesystem::remove_all(folder_ + unfinished);  // of a training that was killed
  std::error_code failed;
  std::filesystem::create_directories(folder_ + unfinished, failed);
  if (failed) throw Error("[trajectory] {} cannot be made: {}", folder_ + unfinished, failed.message());
}

Trajectory::~Trajectory() {
  std::error_code ignored;
  if (is_baseline_ && !named_) std::filesystem::remove_all(folder_ + unfinished, ignored);
}

std::string Trajectory::file_of(Index step) const {
  return fmt::format("{}{}/step-{:08}.d5c", folder_, is_baseline_ ? unfinished : "", step);
}

// Before a batch the parameters are those after the last update, and no optimizer has moved them to look ahead.
void Trajectory::before(TrainingEvent event, const TrainingView& view) {
  if (event == TrainingEvent::batch && !view.testing && view.step % every_ == 0) look(view);
}

void Trajectory::after(TrainingEvent event, const TrainingView& view) {
  if (event != TrainingEvent::training) return;
  look(view);
  if (!is_baseline_) return;
  std::filesystem::rename(folder_ + unfinished, folder_);
  named_ = true;
}

void Trajectory::look(const TrainingView& view) {
  if (view.step == last_) return;  // another micro-batch of the same step
  last_ = view.step;
  if (is_baseline_)
    store(view.step, *view.parameters);
  else
    compare(view.step, *view.parameters);
}

void Trajectory::store(Index step, const ParameterSet& set) const {
  write_checkpoint(file_of(step), about_, canonical_parameters(set));
}

void Trajectory::compare(Index step, const ParameterSet& set) {
  if (!std::filesystem::exists(file_of(step))) return;  // the baseline ended before, or was looked at less often
  const Checkpoint stored = read_checkpoint(file_of(step));
  const NamedTensors mine = canonical_parameters(set);
  TrajectoryPoint point{.step = step};
  names_.clear();
  for (const auto& [name, value] : mine) {
    const Tensor& other = stored.at(name);
    names_.push_back(name);
    const ParameterDistance distance = distance_between(value, other, name);
    point.parameters.push_back(distance);
    if (!set.at(name).trainable) continue;
    point.all.l2 = std::hypot(point.all.l2, distance.l2);
    if (distance.linf > point.all.linf || std::isnan(distance.linf)) point.all.linf = distance.linf;
    double squares = 0;
    for (const float v : other.values<float>()) squares += static_cast<double>(v) * static_cast<double>(v);
    point.baseline_l2 = std::hypot(point.baseline_l2, std::sqrt(squares));
  }
  points_.push_back(std::move(point));
}

}  // namespace d5
