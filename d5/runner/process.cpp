// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/process.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "d5/core/error.hpp"
#include "d5/runner/protocol.hpp"

extern char** environ;

namespace d5 {
namespace {

constexpr int child_socket = 3;

std::vector<std::string> merged_environment(const ProcessStart& start) {
  std::map<std::string, std::string> values;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      values[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
  }
  for (const auto& [name, value] : start.environment) values[name] = value;
  values[worker_descriptor_variable] = std::to_string(child_socket);
  std::vector<std::string> entries;
  for (const auto& [name, value] : values) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

struct Plan {  // everything the new process needs, made before fork: after it, only plain system calls are safe
  std::vector<char*> arguments, environment;
  cpu_set_t* cores;
  size_t cores_bytes;
  int socket, output, failure;  // output -1: ours
  pid_t parent;
};

[[noreturn]] void become(const Plan& plan) {
  if (plan.output >= 0) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  if (plan.cores) sched_setaffinity(0, plan.cores_bytes, plan.cores);

  // Out of the way of 0 to 3 first: any of ours may have such a number.
  const int socket = fcntl(plan.socket, F_DUPFD, 10), output = fcntl(plan.output < 0 ? 2 : plan.output, F_DUPFD, 10);
  const int failure = fcntl(plan.failure, F_DUPFD_CLOEXEC, 10);
  const int empty = open("/dev/null", O_RDONLY);
  dup2(empty, 0);
  dup2(output, 1);
  dup2(output, 2);
  dup2(socket, child_socket);
#ifdef SYS_close_range
  constexpr unsigned close_on_exec = 4;
  syscall(SYS_close_range, child_socket + 1, ~0U, close_on_exec);
#endif
  execve(plan.arguments[0], plan.arguments.data(), plan.environment.data());
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = write(failure, &reason, sizeof reason);
  _exit(127);
}

struct Pair {
  int ours = -1, theirs = -1;
  ~Pair() {
    if (ours >= 0) close(ours);
    if (theirs >= 0) close(theirs);
  }
  void close_theirs() {
    close(theirs);
    theirs = -1;
  }
  int release() { return std::exchange(ours, -1); }
};

void open_pipe(Pair& pair) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("[child] no pipe: {}", std::strerror(errno));
  pair.ours = ends[0];
  pair.theirs = ends[1];
}

}  // namespace

StartedProcess start_process(const ProcessStart& start) {
  if (start.command.empty()) throw Error("[child] no command is given");
  Pair connection, output, failure;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error("[child] no socket pair: {}", std::strerror(errno));
  connection.ours = ends[0];
  connection.theirs = ends[1];
  if (!start.nested) open_pipe(output);
  open_pipe(failure);
  if (!start.nested) fcntl(output.ours, F_SETFL, O_NONBLOCK);

  std::vector<std::string> command = start.command, environment = merged_environment(start);
  Plan plan{pointers(command), pointers(environment), nullptr,        0,
            connection.theirs, output.theirs,         failure.theirs, getpid()};
  if (!start.cores.empty()) {
    int most = 0;
    for (int core : start.cores) most = std::max(most, core + 1);
    plan.cores = CPU_ALLOC(most);
    plan.cores_bytes = CPU_ALLOC_SIZE(most);
    CPU_ZERO_S(plan.cores_bytes, plan.cores);
    for (int core : start.cores) CPU_SET_S(core, plan.cores_bytes, plan.cores);
  }
  const pid_t pid = fork();
  if (pid == 0) become(plan);
  const int fork_error = errno;
  if (plan.cores) CPU_FREE(plan.cores);
  if (pid < 0) throw Error("[child] cannot fork: {}", std::strerror(fork_error));
  if (!start.nested) setpgid(pid, pid);  // both sides set it, whoever comes first
  connection.close_theirs();
  if (!start.nested) output.close_theirs();
  failure.close_theirs();

  int reason = 0;
  ssize_t got;
  do got = read(failure.ours, &reason, sizeof reason);  // ends without a word when exec succeeds
  while (got < 0 && errno == EINTR);
  if (got == sizeof reason) {
    waitpid(pid, nullptr, 0);
    throw Error("[child] cannot execute {}: {}", start.command[0], std::strerror(reason));
  }
  return {pid, connection.release(), output.release()};
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const char* abbreviation = sigabbrev_np(number);
    return abbreviation ? fmt::format("killed by SIG{} ({})", abbreviation, sigdescr_np(number))
                        : fmt::format("killed by signal {}", number);
  }
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace d5
