// SPDX-License-Identifier: Apache-2.0
// A process of our own, as the operating system sees it: started, watched, ended. No protocol.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace d5 {

struct ProcessStart {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::vector<int> cores;                                        // affinity; empty: ours
  bool nested = false;  // in our process group and with our output, so that who watches us watches both
};

struct StartedProcess {
  pid_t pid;
  int socket;  // our end of the connection; the process has the other as descriptor 3, named in D5_WORKER_FD
  int output;  // what it writes to stdout and stderr; reading never waits; -1 where nested
};

// In a process group of its own (a Ctrl-C at the terminal is not for it) unless nested, with stdin empty; it is killed
// when the thread that started it ends. Error in plain words where the program cannot be executed.
StartedProcess start_process(const ProcessStart&);

std::string describe_end(int wait_status);  // "killed by SIGSEGV (Segmentation fault)", "exited with status 3"

// Of the process and all that it started and that still runs: a worker of a worker counts with it.
size_t resident_bytes(pid_t);  // 0 where it is gone
size_t peak_resident_bytes(pid_t);
double process_cpu_seconds(pid_t);  // user + system, all threads

// What can be allocated now without swapping, within the limit of the control group.
size_t available_memory_bytes();

}  // namespace d5
