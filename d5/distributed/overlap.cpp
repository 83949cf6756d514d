// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/overlap.hpp"

#include <algorithm>

#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

constexpr int64_t warm_up = 2, early = 12, every_early = 3, every = 64;

}  // namespace

double LastValues::median() const {
  std::array<double, 128> sorted = values_;
  const size_t n = std::min(count_, sorted.size());
  if (n == 0) return 0;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(n));
  return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

void Overlap::restart() {
  steps_ = 0;
  for (LastValues* values : {&communication_, &exposed_, &backward_, &backward_beside_}) values->clear();
}

void Overlap::begin_step(bool may_be_alone) {
  ++steps_;
  is_alone_ = may_be_alone && steps_ > warm_up && (steps_ <= early ? steps_ % every_early == 0 : steps_ % every == 0);
  first_gradient_ = 0;
  waited_ = 0;
}

void Overlap::gradient_ready() {
  if (first_gradient_ != 0) return;
  double none = 0;
  first_gradient_.compare_exchange_strong(none, now_seconds());
}

void Overlap::backward_ended() {
  backward_end_ = now_seconds();
  if (first_gradient_ == 0) first_gradient_ = backward_end_;
}

void Overlap::end_step() {
  step_ = now_seconds() - first_gradient_;
  if (steps_ <= warm_up) return;
  (is_alone_ ? backward_ : backward_beside_).add(backward_end_ - first_gradient_);
  if (!is_alone_) exposed_.add(waited_);
}

double Overlap::Times::could_be_hidden() const { return std::min(communication, backward); }

double Overlap::Times::hidden_share() const {
  const double could = could_be_hidden();
  return could > 0 ? std::clamp((communication - exposed) / could, 0.0, 1.0) : 0;
}

Overlap::Times Overlap::times() const {
  return {communication_.median(), exposed_.median(), backward_.median(), backward_beside_.median()};
}

}  // namespace d5
