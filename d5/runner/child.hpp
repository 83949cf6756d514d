// SPDX-License-Identifier: Apache-2.0
// A child process that runs cases: the parent's side of the protocol (docs/protocol.md). One JSON object a line over a
// socket pair, in both directions; the child's descriptor is in D5_WORKER_FD. What the child prints (stdout and stderr)
// is caught; its last lines come with the error when it is lost.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "d5/core/error.hpp"
#include "d5/core/tensor.hpp"

namespace d5 {

class LineSocket;

struct ChildLimits {
  double seconds = 600;         // without a word, while a request is under way
  size_t memory_bytes = 0;      // resident size; 0: what the machine has, less a reserve
  double cancel_seconds = 0.5;  // to end by itself once it is cancelled
};
size_t memory_limit(const ChildLimits&);  // in bytes, as of now

struct ChildSettings {
  std::vector<std::string> command;  // {program, "worker"}; a foreign worker is any other program
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours, before exec
  std::vector<int> cores;                                        // affinity, before exec; empty: ours
  ChildLimits limits;
  const std::atomic<bool>* interrupted = nullptr;  // once set, the request under way is cancelled and the child is lost
  // The worker of a worker: in our process group, with our output; who watches us stops, limits and ends both.
  bool nested = false;
};

// The child answered with an error; it lives on.
class ChildError : public Error {
 public:
  ChildError(const std::string& reason, std::string output) : Error(reason), output_(std::move(output)) {}
  const std::string& output() const { return output_; }  // the last it printed for this case, up to 2 KB

 private:
  std::string output_;
};

// The child is gone or was killed: "killed by SIGSEGV (Segmentation fault)", "no answer within 600 s", "outgrew its
// memory limit of 2.0 GiB".
class ChildLost : public ChildError {
  using ChildError::ChildError;
};

class Child {
 public:
  explicit Child(ChildSettings);  // starts it and waits for hello
  ~Child();                       // close, then kill what does not end
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Sends {"do":what, ...} and waits for its answer. `notice` sees progress and metric messages meanwhile. Throws
  // ChildLost, or ChildError with the child's own words where it answered with an error.
  nlohmann::json ask(const nlohmann::json& request, const std::function<void(const nlohmann::json&)>& notice = {});
  Tensor fetch(const std::string& tensor, int id = 0);  // of case `id`, through shared memory

  const nlohmann::json& hello() const { return hello_; }
  pid_t pid() const { return pid_; }  // -1 once it is lost
  // While others run: stopped, so that it spends no time. resume() before the next ask; ask() resumes by itself.
  void stop();
  void resume();
  double cpu_seconds() const;       // user + system so far
  double idle_cpu_seconds() const;  // of that, spent while it was stopped: about zero
  size_t peak_memory_bytes() const;

 private:
  nlohmann::json wait_message(double deadline, double seconds);
  void wait_for_bytes();
  bool ended();  // has it exited? Then wait_status_ says how
  bool ended_within(double seconds);
  void check_limits(double deadline, double seconds);
  void drain_output();
  void end();  // killed with all it started, and reaped
  [[noreturn]] void lose(const std::string& reason);

  ChildSettings settings_;
  nlohmann::json hello_;
  pid_t pid_ = -1;
  std::unique_ptr<LineSocket> lines_;
  int output_ = -1;
  std::string last_output_;
  std::string asked_ = "start";  // the request under way, for messages
  int wait_status_ = 0;
  bool ended_ = false, stopped_ = false;
  double cpu_at_stop_ = 0, idle_cpu_ = 0;
};

}  // namespace d5
