// SPDX-License-Identifier: Apache-2.0
// Who wants to see a training go by. Every event comes before and after what it is named after:
//   training, epoch, training_set, test_set, batch, sampling, optimizer_step
// A class that listens ends its file with D5_REGISTER(training_events, "my-events", MyEvents), built in or in a plugin,
// and is made from its named values. Events are called in the trainer's thread; what they do counts as the trainer's
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

enum class TrainingEvent { training, epoch, training_set, test_set, batch, sampling, optimizer_step };
std::string name(TrainingEvent);

// Where the training stands. Pointers are valid during the call.
struct TrainingView {
  Index epoch = 0, batch = 0, step = 0;  // from 0; steps that are done
  Index epochs = 0, batches = 0;         // of the whole, of an epoch; 0: unknown
  bool testing = false;                  // sampling and batch of the test set
  double seconds = 0;                    // since the training began, resumed parts included
  double loss = 0, learning_rate = 0;    // of the last batch
  const Evaluation* train = nullptr;     // of this epoch so far
  const Evaluation* test = nullptr;      // of the last test, or the one under way
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
  };
  template <class T>
  static Entry entry() {
    return {[](const Attributes& values) -> std::unique_ptr<TrainingEvents> { return std::make_unique<T>(values); }};
  }
};

}  // namespace d5
