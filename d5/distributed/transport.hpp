// SPDX-License-Identifier: Apache-2.0
// How bytes get from one rank to another: the small interface that every communicator implements. Algorithms are
// written once over it. Any number of threads may use a transport at a time; messages between two ranks with one tag
// arrive in the order in which they were sent.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "d5/distributed/operation.hpp"

namespace d5 {

// A rank is dead, or did not answer within the time limit. What was under way is undefined on every rank.
class RankLost : public Error {
 public:
  RankLost(int rank, const std::string& message) : Error(message), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

// One message under way. Its buffer belongs to the transport until done() said so.
struct Transfer {
  uintptr_t handle = 0;  // 0: done
  int peer = -1;
  int64_t expected = -1;  // bytes of a message that is received
};

// What this process has sent, counted where it is sent.
struct Traffic {
  int64_t bytes = 0, messages = 0;
};

// Memory of every rank that the others may read and write.
class Window {
 public:
  virtual ~Window() = default;
  virtual void put(int rank, size_t offset, const void* from, size_t bytes) = 0;
  virtual void get(int rank, size_t offset, void* to, size_t bytes) = 0;
  virtual void complete() = 0;  // what this rank began is done, here and there
};

class Transport {
 public:
  virtual ~Transport() = default;
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(nodes_.size()); }
  const std::vector<int>& nodes() const { return nodes_; }  // the machine of each rank, numbered from 0

  Transfer send(int to, int tag, const void* data, size_t bytes);
  Transfer receive(int from, int tag, void* data, size_t bytes);  // Error where another number of bytes was sent
  void wait(Transfer&);                                           // RankLost after the time limit
  void set_time_limit(double seconds) { limit_s_ = seconds; }
  double time_limit() const { return limit_s_; }
  Traffic traffic() const { return {bytes_.load(), messages_.load()}; }

  virtual bool done(Transfer&) = 0;  // makes progress; RankLost where the peer is known to be dead
  // By all ranks at once: those of one colour (0 and up) form a transport, in the order of (key, rank); below 0: none.
  virtual std::unique_ptr<Transport> split(int colour, int key) = 0;
  virtual std::unique_ptr<Window> expose(void* data, size_t bytes) = 0;  // by all ranks at once
  // The library's own collectives, where there are any. It ends the job itself where a rank does not answer in time.
  virtual std::optional<std::string> why_no_library(const Operation&) const;
  virtual void run_library(const Operation&);
  // `peer` did not answer: nobody touches the buffers of this rank any more. The answer is whose fault it is, where
  // that can be found out: the peer may itself wait for another.
  virtual int abandon(int peer) { return peer; }
  // After RankLost, by every rank that is left: a transport of those, in their old order. Others that still wait for
  // one of them get RankLost. Not for messages of what was split off before.
  virtual std::unique_ptr<Transport> shrink();
  virtual std::optional<std::string> why_no_shrink() const { return "this communicator cannot go on with fewer ranks"; }

 protected:
  Transport(int rank, std::vector<int> nodes) : rank_(rank), nodes_(std::move(nodes)) {}
  void count(size_t bytes);  // for what does not go through send()
  virtual Transfer start_send(int to, int tag, const void* data, size_t bytes) = 0;
  virtual Transfer start_receive(int from, int tag, void* data, size_t bytes) = 0;

 private:
  int rank_;
  std::vector<int> nodes_;
  double limit_s_ = 60;
  std::atomic<int64_t> bytes_{0}, messages_{0};
};

}  // namespace d5
