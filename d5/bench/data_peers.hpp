// SPDX-License-Identifier: Apache-2.0
// Other processes that read beside this one, as the ranks of a node do: each has its own loader and its own share of
// the samples, nothing is shared but the storage.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

namespace d5 {

class DataPeers {
 public:
  // Forks `count` processes. Each calls open(rank), with rank 1 to count, when they are told to run, and then what it
  // got, once for every batch, which says how many samples that has, until they are to pause: it is destroyed then.
  // Before anything else has threads.
  using Next = std::function<int64_t()>;
  DataPeers(int count, const std::function<Next(int rank)>& open);
  ~DataPeers();  // ends them
  DataPeers(const DataPeers&) = delete;
  DataPeers& operator=(const DataPeers&) = delete;

  // Returns when each has given a batch since; Error where one has ended.
  void start();
  void pause();             // returns when all are idle
  int64_t samples() const;  // of all, so far

 private:
  struct alignas(64) Line {
    std::atomic<int64_t> value = 0;
    std::atomic<bool> idle = true;
  };
  void check() const;
  void stop();
  std::atomic<int64_t>& running() const { return lines_[0].value; }
  std::atomic<int64_t>& given(size_t process) const { return lines_[1 + process].value; }
  std::atomic<bool>& idle(size_t process) const { return lines_[1 + process].idle; }

  Line* lines_ = nullptr;  // seen by all: whether to run, then the samples of each
  size_t bytes_ = 0;
  std::vector<pid_t> processes_;
};

}  // namespace d5
