// SPDX-License-Identifier: Apache-2.0
// A child process that runs cases: the parent's side of the protocol (docs/protocol.md). One JSON object a line over a
// socket pair, in both directions; the child's descriptor is in D5_WORKER_FD. stdout of the child goes to stderr.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "d5/core/error.hpp"
#include "d5/core/tensor.hpp"

namespace d5 {

struct ChildLimits {
  double seconds = 600;     // for one request
  size_t memory_bytes = 0;  // resident size; 0: what the machine has, less a reserve
};

struct ChildSettings {
  std::vector<std::string> command;  // {program, "worker"}; a foreign worker is any other program
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours, before exec
  std::vector<int> cores;                                        // affinity, before exec; empty: ours
  ChildLimits limits;
};

// The child is gone or was killed: "killed by SIGSEGV", "no answer within 600 s", "outgrew its memory limit of 2.0
// GiB".
class ChildLost : public Error {
 public:
  using Error::Error;
};

class Child {
 public:
  explicit Child(ChildSettings);  // starts it and waits for hello
  ~Child();                       // close, then kill what does not end
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Sends {"do":what, ...} and waits for its answer. `notice` sees progress and metric messages meanwhile. Throws
  // ChildLost, or Error with the child's own words where it answered with an error (the child lives on).
  nlohmann::json ask(const nlohmann::json& request, const std::function<void(const nlohmann::json&)>& notice = {});
  Tensor fetch(const std::string& tensor);  // through shared memory

  const nlohmann::json& hello() const { return hello_; }
  pid_t pid() const { return pid_; }
  // While others run: stopped, so that it spends no time. resume() before the next ask; ask() resumes by itself.
  void stop();
  void resume();
  double cpu_seconds() const;  // user + system so far
  size_t peak_memory_bytes() const;

 private:
  void receive_hello();
  [[noreturn]] void lose(const std::string& reason);
  ChildSettings settings_;
  nlohmann::json hello_;
  pid_t pid_ = -1;
  int socket_ = -1;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace d5
