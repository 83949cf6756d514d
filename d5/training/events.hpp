// SPDX-License-Identifier: Apache-2.0
// Who wants to see a training go by. Every event comes before and after what it is named after:
//   training, epoch, training_set, test_set, batch, sampling, forward, backward, optimizer_step, checkpoint
// A class that listens ends its file with D5_REGISTER(training_events, "my-events", MyEvents), built in or in a plugin,
// and is made from its named values, of several ranks on rank 0 alone, unless it says static constexpr bool
// on_all_ranks = true. Events are called in the trainer's thread; what they do counts as the trainer's
// own overhead. Nobody listening costs nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "d5/core/attributes.hpp"
#include "d5/core/parameter_set.hpp"
#include "d5/core/registry.hpp"

namespace d5 {

class Evaluation;

enum class TrainingEvent {
  training,
  epoch,
  training_set,
  test_set,
  batch,
  sampling,
  forward,   // of a batch that is learned from; these two where one network is trained step by step
  backward,  // gradients travel while it goes on, where the scheme lets them
  optimizer_step,
  checkpoint
};
std::string name(TrainingEvent);

// Where the training stands. Pointers are valid during the call.
struct TrainingView {
  Index epoch = 0, batch = 0, step = 0;  // from 0; steps that are done
  Index epochs = 0, batches = 0;         // of the whole, of an epoch; 0: unknown
  int rank = 0;
  bool testing = false;                // sampling and batch of the test set
  double seconds = 0;                  // since the training began, resumed parts included
  double loss = 0, learning_rate = 0;  // of the last batch
  const Evaluation* train = nullptr;   // of this epoch so far
  const Evaluation* test = nullptr;    // of the last test, or the one under way
  ParameterSet* parameters = nullptr;
};

class TrainingEvents {
 public:
  virtual ~TrainingEvents() = default;
  virtual void before(TrainingEvent, const TrainingView&) {}
  virtual void after(TrainingEvent, const TrainingView&) {}
  virtual std::string stop() { return {}; }  // asked after every batch: a reason ends the training
};

struct training_events {
  static constexpr const char* kind = "training event";
  struct Entry {
    std::function<std::unique_ptr<TrainingEvents>(const Attributes&)> make;
    bool on_all_ranks = false;
  };
  template <class T>
  static Entry entry() {
    bool on_all_ranks = false;
    if constexpr (requires { T::on_all_ranks; }) on_all_ranks = T::on_all_ranks;
    return {[](const Attributes& values) -> std::unique_ptr<TrainingEvents> { return std::make_unique<T>(values); },
            on_all_ranks};
  }
};

}  // namespace d5
