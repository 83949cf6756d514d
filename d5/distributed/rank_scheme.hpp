// SPDX-License-Identifier: Apache-2.0
// What schemes of several ranks have in common: weights are the same when training begins, tests see the same weights
// on all ranks, parts of the arena are found by number. The mean of gradients is made by the reduction
// (Reduction::mean), so gradients that lie in the arena are always those of all ranks when an optimizer, and so a
// modifier, sees them; Moment::gradient_factor stays that of micro-batches.
#pragma once

#include "d5/datasets/values.hpp"
#include "d5/distributed/communicator.hpp"
#include "d5/training/optimizer.hpp"
#include "d5/training/scheme.hpp"

namespace d5 {

struct TrainingSettings;  // training/trainer.hpp

// The trainer of this rank: which samples it takes, whom it talks to.
void set_communicator(TrainingSettings&, Communicator&);

class RankScheme : public Scheme {
 public:
  // Layouts are compared, by hash; rank 0's weights go everywhere, unless every rank goes on with its own.
  void begin_training(const TrainingStart&) override;
  void begin_test(ParameterSet&) override;
  void end_test(ParameterSet&) override;
  void end_training(ParameterSet&) override;
  void sum_over_ranks(std::span<double>) override;
  Numbers measured() const override;

 protected:
  using Range = ParameterSet::Range;
  RankScheme(std::string name, Communicator*);  // UsageError where there is none

  // Ranks have weights of their own between steps: their mean is tested, and left at the end. Otherwise running
  // statistics (what is not trainable) are averaged, because every rank saw other samples.
  virtual bool ranks_differ() const { return false; }
  virtual double least_bytes() const = 0;  // of a step, by all ranks together; after begin_training
  virtual int64_t sent_bytes() const { return communicator_.traffic().bytes; }

  Communicator& communicator() const { return communicator_; }
  int rank() const { return communicator_.rank(); }
  int ranks() const { return communicator_.size(); }
  std::string place() const { return "[scheme " + name_ + "]"; }
  double arena_bytes() const { return gradient_bytes_; }  // of the gradients; parameters are always f32
  double master_bytes() const { return master_bytes_; }

  void average(ParameterSet&);                 // masters over all ranks
  void refresh_computes(ParameterSet&) const;  // from the masters; nothing to do in f32
  bool has_statistics() const { return !statistics_.empty(); }
  // Around an exchange of parameters: what is not trainable stays this rank's own.
  void keep_statistics(ParameterSet&);
  void restore_statistics(ParameterSet&);
  void need_f32_gradients(const ParameterSet&) const;
  // Part i of the optimizer's state is what rank i has of it: all of it, on every rank.
  std::vector<Optimizer::State> whole_state(const ParameterSet&, Optimizer&, const std::vector<Range>& parts);
  // Runs what is not a step's: its bytes are not counted as one's.
  template <class F>
  void aside(F&& f) {
    const int64_t before = sent_bytes();
    f();
    aside_bytes_ += sent_bytes() - before;
  }

 private:
  std::string name_;
  Communicator& communicator_;
  std::vector<Range> statistics_;  // of parameters that are not trainable
  std::vector<float> kept_statistics_, kept_;
  double gradient_bytes_ = 0, master_bytes_ = 0;
  int64_t aside_bytes_ = 0;
};

// Waits for all of them, whatever becomes of them. Every rank begins the same ones, so they end.
void end_all(std::vector<Request>&) noexcept;

std::byte* gradients_at(const ParameterSet&, ParameterSet::Range);
float* masters_at(const ParameterSet&, ParameterSet::Range);

// The arena in `parts` contiguous ranges of about the same length, cut as finely as the optimizer lets its update be
// divided. UsageError where it needs the whole arena and there are several parts, or a scalar state on all ranks.
std::vector<ParameterSet::Range> shards(const ParameterSet&, Optimizer&, int parts, const std::string& place);
// The same, of whole parameters whatever the optimizer.
std::vector<ParameterSet::Range> whole_parameters(const ParameterSet&, int parts);

}  // namespace d5
