// SPDX-License-Identifier: Apache-2.0
// Schemes in which every rank steps with gradients of all ranks: a bucket is reduced as soon as its last gradient is
// ready, while the backward pass goes on below it, and updated as soon as it is back, while later ones are under way.
#pragma once

#include <optional>

#include "d5/distributed/bucket_tuning.hpp"
#include "d5/distributed/buckets.hpp"
#include "d5/distributed/overlap.hpp"
#include "d5/distributed/rank_scheme.hpp"

namespace d5 {

inline Parameter bucket_parameter() {
  return {
      "bucket_mb",
      "gradients that are reduced at once, in MB; 0: an eighth of all, from 0.25 to 4; -1: the best of a few, tried "
      "in the first steps",
      0.0};
}

class BucketedScheme : public RankScheme {
 public:
  bool overlaps() const override { return true; }
  void begin_training(const TrainingStart&) override;
  void begin_step(Step&) override;
  void gradient_ready(const Gradient&) override;
  void finish_step(Step&) override;
  void end_training(ParameterSet&) override;
  void abandon() noexcept override { end_all(pending_); }
  State state() override;  // the size that was chosen by trying
  // Beside what all have: waited_s over all steps, what overlap.hpp names, the buckets.
  Numbers measured() const override;

 protected:
  BucketedScheme(std::string name, Communicator*, const Attributes& values);

  virtual std::vector<Range> divide(const TrainingStart& start) { return Buckets::of_size(start.parameters, bytes_); }
  virtual void divided() {}  // the buckets are others from now on
  // Begins to replace these gradients by the mean of all ranks'. From within backward.
  virtual Request reduce(size_t bucket, Range, std::byte* gradients) = 0;
  virtual void reduced(size_t /*bucket*/, Range, std::byte* /*gradients*/) {}  // what is left to do when it is back

  void begin_rest();  // backward has ended
  void wait_for(size_t b);
  void end_step();  // after the last update
  size_t buckets() const { return pending_.size(); }
  Range bucket(size_t b) const { return buckets_->ranges()[b]; }
  double dense_least_bytes() const { return 2.0 * (ranks() - 1) * arena_bytes(); }

 private:
  void begin(size_t b) { pending_[b] = reduce(b, bucket(b), at(b)); }
  std::byte* at(size_t b) const { return gradients_ + bucket(b).first * element_bytes_; }
  void set_buckets(const ParameterSet&, std::vector<Range>);
  void tune(const ParameterSet&);
  void choose(const ParameterSet&, double bytes);

  double bytes_, chosen_ = 0;  // chosen_: by trying, here or before a checkpoint; 0: not yet
  bool tries_;
  std::optional<Buckets> buckets_;
  std::optional<BucketTuning> tuning_;
  Overlap overlap_;
  Overlap::Times times_;  // of all ranks, in the end
  std::vector<Request> pending_;
  std::byte* gradients_ = nullptr;
  int64_t element_bytes_ = 4;
  double waited_s_ = 0;
};

}  // namespace d5
