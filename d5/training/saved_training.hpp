// SPDX-License-Identifier: Apache-2.0
// What a checkpoint holds of a training: where it stands, what it measured so far, and the sections of its networks.
// For trainers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "d5/training/checkpoint.hpp"
#include "d5/training/optimizer.hpp"
#include "d5/training/training_frame.hpp"

namespace d5 {

struct SavedPosition {
  Index epoch = 0, batch = 0, step = 0;
  double seconds = 0;             // since the beginning
  std::vector<double> qualities;  // of the test set after each epoch
  Index first = 0;                // samples of the epoch's order that were taken before batch 0
  Index micro_batch = 0;          // samples of a micro-batch, of all ranks together
};

using SumOverRanks = std::function<void(std::span<double>)>;  // Scheme::sum_over_ranks

// To settings.checkpoint.file. Where it cannot be written the result gains a warning: hours of work are worth more than
// a way to repeat them. Of several ranks (training/checkpoint_parts.hpp) all of them call it.
void save_training(const TrainingSettings&, const SavedPosition&, uint64_t layout_hash, NamedTensors, TrainingResult&,
                   const SumOverRanks& = {});
// False: there is no such file. Else position and result are what they were, and `restore` has taken the tensors.
// UsageError where the file is of another training, Error where it is damaged or does not fit. Where another number of
// ranks wrote it, samples that were taken stay taken.
bool load_training(const TrainingSettings&, SavedPosition&, TrainingResult&,
                   const std::function<void(const Checkpoint&)>& restore);

// Where a training begins though it was to go on: which other checkpoint the folder holds, and in what that one
// differs. Empty: none.
std::string why_not_resumed(const TrainingSettings&);

// Sections "parameter NAME" and "optimizer STATE of NAME", behind `prefix`.
NamedTensors saved_network(const std::string& prefix, const ParameterSet&, const std::vector<Optimizer::State>&);
void restore_network(const Checkpoint&, const std::string& prefix, ParameterSet&, Optimizer&);

// The sums of an evaluation, or other numbers, as a section; a view.
Tensor as_section(std::vector<double>&);

}  // namespace d5
