// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds of a training, and how it goes on from there.
#include "d5/measure/clock.hpp"
#include "d5/training/saved_training.hpp"
#include "d5/training/trainer_work.hpp"

namespace d5 {

void Trainer::Work::save() {
  const double begin = now_seconds();
  NamedTensors tensors;
  add_network(tensors, "", set_, *optimizer_);
  for (const auto& [name, value] : scheme_->state()) tensors.emplace_back("scheme " + name, value);
  tensors.emplace_back("quality of the epoch", as_section(train_->sums()));
  result_.checkpoint_seconds += now_seconds() - begin;
  const SavedPosition at{epoch_, batch_, step_, elapsed(), qualities_};
  save_training(settings_, at, set_.layout_hash(), std::move(tensors), result_);
}

void Trainer::Work::load() {
  SavedPosition at;
  const bool there = load_training(settings_, at, result_, [&](const Checkpoint& saved) {
    restore_network(saved, "", set_, *optimizer_);
    for (const auto& [name, value] : scheme_->state()) value.copy_from(saved.at("scheme " + name));
    as_section(train_->sums()).copy_from(saved.at("quality of the epoch"));
  });
  if (!there) return;
  epoch_ = at.epoch;
  batch_ = at.batch;
  step_ = at.step;
  seconds_before_ = at.seconds;
  qualities_ = at.qualities;
}

}  // namespace d5
