// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/data_peers.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <new>
#include <thread>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }

}  // namespace

DataPeers::DataPeers(int count, const std::function<Next(int rank)>& open)
    : bytes_(static_cast<size_t>(1 + count) * sizeof(Line)) {
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error("[data] no memory for {} processes to meet in", count);
  lines_ = static_cast<Line*>(memory);
  for (int line = 0; line <= count; ++line) new (&lines_[line]) Line;
  const pid_t parent = ::getpid();
  for (int p = 0; p < count; ++p) {
    const pid_t process = ::fork();
    if (process < 0) {
      stop();
      throw Error("[data] {} processes could be started, not {}", p, count);
    }
    if (process > 0) {
      processes_.push_back(process);
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    try {
      const auto self = static_cast<size_t>(p);
      while (true) {
        while (running() == 0) nap();
        idle(self) = false;
        {
          const Next next = open(p + 1);
          while (running() != 0) given(self) += next();
        }
        idle(self) = true;
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "[data] process %d: %s\n", p + 1, error.what());
    }
    ::_exit(1);
  }
}

DataPeers::~DataPeers() { stop(); }

void DataPeers::stop() {
  for (const pid_t process : processes_) {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  ::munmap(lines_, bytes_);
}

void DataPeers::check() const {
  for (size_t p = 0; p < processes_.size(); ++p) {
    siginfo_t ended{};
    const auto process = static_cast<id_t>(processes_[p]);
    if (::waitid(P_PID, process, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0)
      throw Error("[data] process {} of {} that read at the same time ended", p + 1, processes_.size());
  }
}

void DataPeers::start() {
  std::vector<int64_t> before;
  for (size_t p = 0; p < processes_.size(); ++p) before.push_back(given(p));
  running() = 1;
  for (size_t p = 0; p < processes_.size(); ++p)
    while (given(p) == before[p]) {
      check();
      nap();
    }
}

void DataPeers::pause() {
  running() = 0;
  for (size_t p = 0; p < processes_.size(); ++p) do {
      check();
      if (!idle(p)) nap();
    } while (!idle(p));
}

int64_t DataPeers::samples() const {
  int64_t sum = 0;
  for (size_t p = 0; p < processes_.size(); ++p) sum += given(p);
  return sum;
}

}  // namespace d5
