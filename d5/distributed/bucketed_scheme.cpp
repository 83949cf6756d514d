// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/bucketed_scheme.hpp"

#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

constexpr double tuned = -1;

// Early enough to overlap, long enough not to be latency.
double usual_bytes(const ParameterSet& set) {
  const auto whole = static_cast<double>(storage_bytes(set.compute_dtype(), set.elements()));
  return std::clamp(whole / 8, 0.25e6, 4e6);
}

}  // namespace

BucketedScheme::BucketedScheme(std::string name, Communicator* communicator, const Attributes& values)
    : RankScheme(std::move(name), communicator),
      bytes_(real_in(values, "bucket_mb", tuned, 1e6, place()) * 1e6),
      tries_(bytes_ < 0) {
  if (tries_ && bytes_ != tuned * 1e6)
    throw UsageError("{} bucket_mb is {:g}; legal: -1 (tried), 0 (by size), or more", place(), bytes_ * 1e-6);
}

void BucketedScheme::begin_training(const TrainingStart& start) {
  RankScheme::begin_training(start);
  overlap_.restart();
  if (tries_) {
    tuning_.emplace(start.parameters, usual_bytes(start.parameters));
    bytes_ = tuning_->bytes();
  }
  if (bytes_ == 0) bytes_ = usual_bytes(start.parameters);
  set_buckets(start.parameters, divide(start));
}

void BucketedScheme::set_buckets(const ParameterSet& set, std::vector<Range> ranges) {
  buckets_.emplace(set, std::move(ranges));
  pending_.assign(buckets_->ranges().size(), {});
  divided();
}

Scheme::State BucketedScheme::state() {
  return tries_ ? State{{"bucket bytes", Tensor::view(DType::f64, {1}, &chosen_)}} : State{};
}

void BucketedScheme::begin_step(Step& step) {
  if (tuning_ && chosen_ > 0) choose(step.parameters(), chosen_);  // as a checkpoint says
  gradients_ = gradients_at(step.parameters(), step.all());
  element_bytes_ = storage_bytes(step.parameters().compute_dtype(), 1);
  buckets_->begin_step();
  overlap_.begin_step(!tuning_ && ranks() > 1);
}

void BucketedScheme::gradient_ready(const Gradient& gradient) {
  overlap_.gradient_ready();
  if (!overlap_.is_alone()) buckets_->ready(gradient, [this](size_t b) { begin(b); });
}

void BucketedScheme::begin_rest() {
  overlap_.backward_ended();
  const auto begin_all = [this] { buckets_->finish([this](size_t b) { begin(b); }); };
  if (!overlap_.is_alone()) return begin_all();
  aside([this] { communicator().barrier(); });
  const double begin = now_seconds();
  begin_all();
  for (Request& request : pending_) request.wait();
  overlap_.communicated(now_seconds() - begin);
}

void BucketedScheme::wait_for(size_t b) {
  const double begin = now_seconds();
  pending_[b].wait();
  const double seconds = now_seconds() - begin;
  waited_s_ += seconds;
  overlap_.waited(seconds);
}

void BucketedScheme::finish_step(Step& step) {
  begin_rest();
  const bool at_once = step.optimizer().division() == Optimizer::Division::whole;
  for (size_t b = 0; b < pending_.size(); ++b) {
    wait_for(b);
    reduced(b, bucket(b), at(b));
    if (!at_once) step.update(bucket(b));
  }
  if (at_once) step.update(step.all());
  end_step();
  if (tuning_ && tuning_->add(overlap_.step_seconds())) tune(step.parameters());
}

void BucketedScheme::end_step() { overlap_.end_step(); }

void BucketedScheme::tune(const ParameterSet& set) {
  double seconds = tuning_->seconds();
  sum_over_ranks({&seconds, 1});
  tuning_->judge(seconds);
  if (tuning_->done()) return choose(set, tuning_->bytes());
  bytes_ = tuning_->bytes();
  set_buckets(set, Buckets::of_size(set, bytes_));
}

void BucketedScheme::choose(const ParameterSet& set, double bytes) {
  bytes_ = chosen_ = bytes;
  set_buckets(set, Buckets::of_size(set, bytes));
  tuning_.reset();
  overlap_.restart();
}

void BucketedScheme::end_training(ParameterSet& set) {
  RankScheme::end_training(set);
  times_ = overlap_.times();
  std::array all{times_.communication, times_.exposed, times_.backward, times_.backward_beside};
  sum_over_ranks(all);
  for (double& value : all) value /= ranks();
  times_ = {all[0], all[1], all[2], all[3]};
}

Scheme::Numbers BucketedScheme::measured() const {
  Numbers numbers = RankScheme::measured();
  numbers.emplace_back("waited_s", waited_s_);
  numbers.emplace_back("buckets", static_cast<double>(pending_.size()));
  numbers.emplace_back("bucket_mb", bytes_ * 1e-6);
  if (times_.communication == 0) return numbers;  // too few steps to say
  numbers.emplace_back("communication_s", times_.communication);
  numbers.emplace_back("exposed_s", times_.exposed);
  numbers.emplace_back("backward_s", times_.backward);
  numbers.emplace_back("backward_beside_s", times_.backward_beside);
  numbers.emplace_back("hidden_share", times_.hidden_share());
  return numbers;
}

}  // namespace d5
