// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds of a training, and how it goes on from there.
#include "d5/measure/clock.hpp"
#include "d5/training/checkpoint_parts.hpp"
#include "d5/training/saved_training.hpp"
#include "d5/training/trainer_work.hpp"

namespace d5 {

void Trainer::Work::save() {
  const double begin = now_seconds();
  before(TrainingEvent::checkpoint);
  scheme_->begin_save(set_, *optimizer_);
  NamedTensors tensors;
  add_network(tensors, "", set_, *optimizer_);
  for (const auto& [name, value] : scheme_->state()) tensors.emplace_back("scheme " + name, value);
  tensors.emplace_back(summed_section, as_section(train_->sums()));
  result_.checkpoint_seconds += now_seconds() - begin;
  const SavedPosition at{epoch_, batch_, step_, elapsed(), qualities_, first_, samples_of_micro_batch()};
  save_training(settings_, at, set_.layout_hash(), std::move(tensors), result_,
                [this](std::span<double> numbers) { scheme_->sum_over_ranks(numbers); });
  after(TrainingEvent::checkpoint);
}

void Trainer::Work::load() {
  SavedPosition at{.qualities = {}, .micro_batch = samples_of_micro_batch()};
  const bool there = load_training(settings_, at, result_, [&](const Checkpoint& saved) {
    restore_network(saved, "", set_, *optimizer_);
    for (const auto& section : saved.tensors)
      if (section.first.starts_with("scheme ")) scheme_state_.push_back(section);
    as_section(train_->sums()).copy_from(saved.at(summed_section));
  });
  if (settings_.ranks > 1) {  // a machine that does not see the folder would begin anew, alone
    double together = static_cast<double>(at.step);
    scheme_->sum_over_ranks({&together, 1});
    if (together != static_cast<double>(at.step * settings_.ranks))
      throw Error("[checkpoint] rank {} finds step {} in {} and others do not: machines need a folder in common",
                  settings_.rank, at.step, settings_.checkpoint.file);
  }
  if (!there) return;
  epoch_ = at.epoch;
  batch_ = at.batch;
  step_ = at.step;
  first_ = at.first;
  seconds_before_ = at.seconds;
  qualities_ = at.qualities;
}

// Its state lies where begin_training put it.
void Trainer::Work::restore_scheme() {
  if (result_.resumed_at == 0) return;
  const Checkpoint saved{{}, std::exchange(scheme_state_, {})};
  for (const auto& [name, value] : scheme_->state()) value.copy_from(saved.at("scheme " + name));
}

}  // namespace d5
