// SPDX-License-Identifier: Apache-2.0
// Schemes in which every rank steps with gradients of all ranks: a bucket is reduced as soon as its last gradient is
// ready, while the backward pass goes on below it, and updated as soon as it is back, while later ones are under way.
#pragma once

#include <optional>

#include "d5/distributed/buckets.hpp"
#include "d5/distributed/rank_scheme.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {

inline Parameter bucket_parameter() {
  return {"bucket_mb", "gradients that are reduced at once, in MB; 0: each parameter", 4.0};
}

class BucketedScheme : public RankScheme {
 public:
  bool overlaps() const override { return true; }
  void begin_training(const TrainingStart& start) override {
    RankScheme::begin_training(start);
    buckets_.emplace(start.parameters, divide(start));
    pending_.resize(buckets_->ranges().size());
  }
  void begin_step(Step& step) override {
    gradients_ = gradients_at(step.parameters(), step.all());
    element_bytes_ = storage_bytes(step.parameters().compute_dtype(), 1);
    buckets_->begin_step();
  }
  void gradient_ready(const Gradient& gradient) override {
    buckets_->ready(gradient, [this](size_t b) { begin(b); });
  }
  void finish_step(Step& step) override {
    begin_rest();
    const bool at_once = step.optimizer().division() == Optimizer::Division::whole;
    for (size_t b = 0; b < pending_.size(); ++b) {
      wait_for(b);
      reduced(b, bucket(b), at(b));
      if (!at_once) step.update(bucket(b));
    }
    if (at_once) step.update(step.all());
  }
  void abandon() noexcept override { end_all(pending_); }
  // Communication that backward did not hide: waited_s, over all steps.
  Numbers measured() const override {
    Numbers numbers = RankScheme::measured();
    numbers.emplace_back("waited_s", waited_s_);
    return numbers;
  }

 protected:
  BucketedScheme(std::string name, Communicator* communicator, const Attributes& values)
      : RankScheme(std::move(name), communicator), bytes_(real_in(values, "bucket_mb", 0, 1e6, place()) * 1e6) {}

  virtual std::vector<Range> divide(const TrainingStart& start) { return Buckets::of_size(start.parameters, bytes_); }
  // Begins to replace these gradients by the mean of all ranks'. From within backward.
  virtual Request reduce(size_t bucket, Range, std::byte* gradients) = 0;
  virtual void reduced(size_t /*bucket*/, Range, std::byte* /*gradients*/) {}  // what is left to do when it is back

  void begin_rest() {
    buckets_->finish([this](size_t b) { begin(b); });
  }
  void wait_for(size_t b) {
    const double begin = now_seconds();
    pending_[b].wait();
    waited_s_ += now_seconds() - begin;
  }
  size_t buckets() const { return pending_.size(); }
  Range bucket(size_t b) const { return buckets_->ranges()[b]; }
  double dense_least_bytes() const { return 2.0 * (ranks() - 1) * arena_bytes(); }

 private:
  void begin(size_t b) { pending_[b] = reduce(b, bucket(b), at(b)); }
  std::byte* at(size_t b) const { return gradients_ + bucket(b).first * element_bytes_; }

  double bytes_;
  std::optional<Buckets> buckets_;
  std::vector<Request> pending_;
  std::byte* gradients_ = nullptr;
  int64_t element_bytes_ = 4;
  double waited_s_ = 0;
};

}  // namespace d5
