// SPDX-License-Identifier: Apache-2.0
#include "d5/core/trial.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

namespace d5 {
namespace {

// What the copy writes: each message is its kind and its text, ended by a zero.
constexpr char next_call = 'c', answered = 'a', refused = 'r', threw = 't';

void tell(int pipe, char kind, std::string_view text) {
  std::string message = kind + std::string(text);
  std::erase(message, '\0');
  message += '\0';
  for (size_t sent = 0; sent < message.size();) {
    const ssize_t n = write(pipe, message.data() + sent, message.size() - sent);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) sent += static_cast<size_t>(n);
  }
}

[[noreturn]] void run_copy(int pipe, const std::function<std::string(const Calling&)>& act) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) std::signal(signal, SIG_DFL);
  const int nowhere = open("/dev/null", O_WRONLY);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
  try {
    tell(pipe, answered, act([pipe](std::string_view call) { tell(pipe, next_call, call); }));
  } catch (const Error& error) {
    tell(pipe, refused, error.what());
  } catch (const std::exception& error) {
    tell(pipe, threw, error.what());
  } catch (...) {
    tell(pipe, threw, "an exception of an unknown type");
  }
  _exit(0);
}

// Takes all that the copy writes until it ends. The answer is why we stop listening before; empty: it ended.
std::string listen(int pipe, double seconds, std::string& heard) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  std::array<char, 4096> block;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{pipe, POLLIN, 0};
    const int ready = left > 0 ? poll(&wait, 1, static_cast<int>(left)) : 0;
    if (ready < 0) return "is interrupted";
    if (ready == 0) return fmt::format("does not end within {:g} s", seconds);
    const ssize_t n = read(pipe, block.data(), block.size());
    if (n == 0) return {};
    if (n > 0) heard.append(block.data(), static_cast<size_t>(n));
  }
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("crashes: SIG{} ({})", sigabbrev_np(WTERMSIG(status)), sigdescr_np(WTERMSIG(status)));
  return fmt::format("ends the process (status {})", WEXITSTATUS(status));
}

}  // namespace

std::string try_apart(std::string_view place, const std::function<std::string(const Calling&)>& act, double seconds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("[trial] no pipe: {}", std::strerror(errno));
  const pid_t pid = fork();
  if (pid < 0) throw Error("[trial] cannot fork: {}", std::strerror(errno));
  if (pid == 0) run_copy(ends[1], act);
  close(ends[1]);
  std::string heard;
  const std::string stopped = listen(ends[0], seconds, heard);
  close(ends[0]);
  if (!stopped.empty()) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }

  std::string call = "it";
  for (size_t begin = 0, end; (end = heard.find('\0', begin)) != std::string::npos; begin = end + 1) {
    const std::string text = heard.substr(begin + 1, end - begin - 1);
    if (heard[begin] == next_call) call = text;
    if (heard[begin] == answered) return text;
    if (heard[begin] == refused) throw Error(text);
    if (heard[begin] == threw) throw TrialFailed("{} {} throws: {}", place, call, text);
  }
  throw TrialFailed("{} {} {}", place, call, stopped.empty() ? how_it_ended(status) : stopped);
}

}  // namespace d5
