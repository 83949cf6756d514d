// SPDX-License-Identifier: Apache-2.0
// One timeline of all ranks over a few steps, in the trace-event format (report/trace.hpp): a process for each rank;
// input, operators, optimizer and waiting on its first thread, communication on another. Rank 0 writes the file, with
// the times of all ranks on its own clock.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "d5/backends/backend.hpp"
#include "d5/training/events.hpp"

namespace d5 {

class Communicator;

class TrainTrace {
 public:
  // `steps`: at most so many are taken. Error where rank 0 cannot write the file.
  TrainTrace(const std::string& file, Communicator*, Index steps);
  ~TrainTrace();

  TrainingEvents& events();
  std::unique_ptr<Backend> watched(std::unique_ptr<Backend>);
  // By all ranks at once, after the training. The answer is what rank 0 knows of their clocks; null: there is one rank.
  nlohmann::json write();

 private:
  class Work;
  std::shared_ptr<Work> work_;
};

}  // namespace d5
