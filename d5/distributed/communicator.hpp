// SPDX-License-Identifier: Apache-2.0
// Ranks that work together. Collectives are requests on a stream: every rank starts the same ones in the same order,
// they run in that order, by a thread of their own once there is something to overlap with, and end in that order.
// After an error the stream is broken: every later request ends with the same error.
//
//   Communicator& c = ...;
//   Request sum = c.start({.collective = Collective::allreduce, .input = g, .output = g, .count = n, .reduction =
//   Reduction::mean});
//   ...                                     // go on computing
//   sum.wait();                             // RankLost names the rank that is dead or hung
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "d5/core/registry.hpp"
#include "d5/distributed/transport.hpp"

namespace d5 {

class RequestStream;

class Request {
 public:
  Request() = default;
  bool done();
  void wait();

 private:
  friend class Communicator;
  std::shared_ptr<RequestStream> stream_;  // a collective: number `sequence_` of this stream
  uint64_t sequence_ = 0;
  std::shared_ptr<Transport> transport_;  // a message
  Transfer transfer_;
};
void wait_all(std::vector<Request>&);  // and empties it

// Which algorithm for which size: the last row whose bytes are not above the size counts.
struct AlgorithmChoice {
  int64_t from_bytes;
  std::string algorithm;
};

// Who wants to see collectives go by; called by whichever thread ran them or waited.
class CommunicationListener {
 public:
  virtual ~CommunicationListener() = default;
  virtual void ran(const Operation&, double begin_s, double end_s) = 0;
  virtual void waited(double begin_s, double end_s) = 0;
};

class Communicator {
 public:
  explicit Communicator(std::shared_ptr<Transport>);
  ~Communicator();
  Communicator(Communicator&&) noexcept;

  int rank() const;
  int size() const;
  const std::vector<int>& nodes() const;  // the machine of each rank, numbered from 0
  Traffic traffic() const;                // that this process has sent; what a library sends by itself is not known
  void set_time_limit(double seconds);    // of waiting for a rank; 60 at first

  Request start(Operation);  // the buffers belong to the communicator until wait() or done()
  void run(Operation);       // the same, and waits: on this thread where nothing is under way
  void barrier();
  std::optional<std::string> why_not(const Operation&) const;  // op.algorithm cannot, and why

  // Messages from rank to rank, beside the stream. Those between two ranks with one tag arrive in order.
  Request send(int to, const void* data, size_t bytes, int tag = 0);
  Request receive(int from, void* data, size_t bytes, int tag = 0);
  std::unique_ptr<Window> expose(void* data, size_t bytes);  // one-sided put and get; by all ranks at once

  // By all ranks at once: those of one colour together, in the order of (key, rank); empty for a colour below 0.
  std::optional<Communicator> split(int colour, int key = 0);

  // After RankLost: those that are left, by all of them.
  Communicator shrink();

  // What start() takes where an operation names no algorithm; the same on all ranks.
  void choose(Collective, std::vector<AlgorithmChoice>);
  std::string_view chosen(const Operation&) const;
  const std::vector<AlgorithmChoice>& choices(Collective) const;
  // Times every algorithm that can at this size: by all ranks at once, and the answer is the same on all of them.
  std::string fastest(Collective, DType, int64_t bytes);

  Transport& transport();
  void listen(CommunicationListener*);  // null: nobody; while nothing is under way

 private:
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<RequestStream> stream_;
  std::array<std::vector<AlgorithmChoice>, collective_count> choices_;  // by collective
};

// What kinds of communicators there are. `world` is called once in a process that is one rank of several.
struct communicators {
  static constexpr const char* kind = "communicator";
  struct Entry {
    std::string about;
    std::function<std::shared_ptr<Transport>()> world;  // empty: ranks are not processes
    // The library called in a loop, with nothing of ours between: when each of its calls ended. What ours is measured
    // by.
    std::function<void(Transport&, const Operation&, std::span<double> ends)> plain_loop;
    std::function<void(Transport&, const std::string& why)> abort;  // ends all ranks
  };
  template <class T>
  static Entry entry() {
    return T::entry();
  }
};
struct CommunicatorStatus {
  std::string name;
  bool available;
  std::string reason;  // why it is not; else what it is
};
std::vector<CommunicatorStatus> communicator_statuses();
const communicators::Entry& open_communicator(const std::string& name);  // UsageError where it is off, with the reason

}  // namespace d5
