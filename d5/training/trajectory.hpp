// SPDX-License-Identifier: Apache-2.0
// How far two trainings drift apart that began with the same weights and see the same batches: other backends, other
// optimizers. The first of them is the baseline: its parameters are stored every so many steps, a checkpoint file each,
// in a folder that gets its name when the training has ended. Later ones are compared with what lies there:
//   L2 = sqrt(sum (a - b)^2),   L-infinity = max |a - b|,   for each parameter, and for all trained ones together
// Step 0 is before the first update: there both are 0 unless the weights differ from the beginning.
#pragma once

#include <string>
#include <vector>

#include "d5/training/checkpoint.hpp"
#include "d5/training/events.hpp"

namespace d5 {

struct ParameterDistance {
  double l2 = 0, linf = 0;
};
// In double; NaN where one of the two is. Error where shapes differ.
ParameterDistance distance_between(const Tensor& a, const Tensor& b, const std::string& name);

struct TrajectoryPoint {
  Index step = 0;
  std::vector<ParameterDistance> parameters;  // as Trajectory::names
  ParameterDistance all;                      // over the trained ones
  double baseline_l2 = 0;                     // norm of the baseline's trained ones, to see how much that is
};

class Trajectory final : public TrainingEvents {
 public:
  // `about` is a JSON object that says who trains. Error where `folder` is there and is no baseline.
  Trajectory(std::string folder, Index every, std::string about);
  ~Trajectory() override;  // a baseline that was not finished is removed
  Trajectory(const Trajectory&) = delete;
  Trajectory& operator=(const Trajectory&) = delete;

  void before(TrainingEvent, const TrainingView&) override;
  void after(TrainingEvent, const TrainingView&) override;

  bool is_baseline() const { return is_baseline_; }
  const std::string& baseline() const { return baseline_; }  // who trained it, JSON
  const std::string& folder() const { return folder_; }
  Index every() const { return every_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<TrajectoryPoint>& points() const { return points_; }  // of a baseline: none

 private:
  void look(const TrainingView&);
  void store(Index step, const ParameterSet&) const;
  void compare(Index step, const ParameterSet&);
  std::string file_of(Index step) const;

  std::string folder_, about_, baseline_;
  Index every_, last_ = -1;
  bool is_baseline_, named_ = false;
  std::vector<std::string> names_;
  std::vector<TrajectoryPoint> points_;
};

}  // namespace d5
