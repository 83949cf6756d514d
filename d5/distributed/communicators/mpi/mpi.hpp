// SPDX-License-Identifier: Apache-2.0
// The communicator mpi: MPI-3 with MPI_THREAD_MULTIPLE. Open MPI 4.1 and 5, MPICH.
#pragma once

#include <mpi.h>

#include <mutex>

#include "d5/distributed/communicator.hpp"

namespace d5 {

// Every code of MPI meets this one place.
void check_mpi(int code, const char* call);

// Sees to it that a library's collective which never returns ends the job, naming the rank that does not answer or that
// did not come. One for each process, with a communicator and a thread of its own, which looks four times a second.
class MpiWatch {
 public:
  explicit MpiWatch(MPI_Comm world);
  ~MpiWatch();
  // Around a call of the library, which reads no clock; whoever waits longer is told on.
  void begin(double limit_s) {
    calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    limit_.store(limit_s, std::memory_order_release);
  }
  void end() { limit_.store(0, std::memory_order_release); }
  // A process of a rank: what is on this machine can be ended from here.
  struct Process {
    int64_t pid = 0;
    uint64_t machine = 0;  // a hash of the kernel's run and the space of pids
    char host[64] = "";
  };
  std::vector<int> silent();  // asks everyone; those who do not answer within three seconds
  MPI_Comm communicator() const { return control_; }
  // Those who did not answer when they were asked last are hung, and the library knows of the dead only: SIGKILL.
  // Error that names one of another machine.
  void end_silent();

 private:
  struct Answer {
    int rank;
    long calls;
  };
  void look();
  void answer_who_asks();
  std::vector<Answer> ask();  // rank -1: no answer
  [[noreturn]] void accuse(double waited_s);
  MPI_Comm control_;
  std::vector<Process> processes_;
  std::mutex silent_mutex_;
  std::vector<int> silent_;
  int rank_ = 0, size_ = 0;
  std::atomic<double> limit_{0};  // 0: no call is under way
  std::atomic<long> calls_{0};
  long seen_calls_ = 0;  // of the thread: the call that it saw last, and since when
  double seen_since_ = 0;
  std::atomic<bool> ends_{false};
  std::unique_ptr<struct MpiWatchThread> thread_;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm, std::shared_ptr<MpiWatch>);  // owns the communicator
  ~MpiTransport() override;
  bool done(Transfer&) override;
  std::unique_ptr<Transport> split(int colour, int key) override;
  std::unique_ptr<Window> expose(void* data, size_t bytes) override;
  std::optional<std::string> why_no_library(const Operation&) const override;
  void run_library(const Operation&) override;
  int abandon(int peer) override;
  std::optional<std::string> why_no_shrink() const override;
  std::unique_ptr<Transport> shrink() override;
  void plain_loop(const Operation&, std::span<double> ends);
  using Transport::count;
  MPI_Comm communicator() const { return comm_; }

 protected:
  Transfer start_send(int to, int tag, const void* data, size_t bytes) override;
  Transfer start_receive(int from, int tag, void* data, size_t bytes) override;

 private:
  MPI_Comm comm_;
  std::shared_ptr<MpiWatch> watch_;
};

// The collective as the library has it, once. Up to 2^31 - 1 elements; longer ones in pieces where that means the same.
void mpi_collective(const Operation&, MPI_Comm, int rank);

}  // namespace d5
