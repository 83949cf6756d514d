// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/child.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include "d5/measure/clock.hpp"
#include "d5/runner/process.hpp"
#include "d5/runner/protocol.hpp"
#include "d5/runner/shared_memory.hpp"

namespace d5 {
namespace {

constexpr int look_milliseconds =
    50;                               // how often limits are looked at; slices are shorter, so it seldom happens in one
constexpr double hello_seconds = 60;  // a foreign framework may take that long to be loaded
constexpr double farewell_seconds = 2;  // between close and kill
constexpr size_t kept_output_bytes = 2048;

constexpr double gibibyte = 1024.0 * 1024 * 1024;

// The answer that belongs to a request.
std::string answer_to(const std::string& request) {
  static const std::map<std::string, std::string> answers{
      {"start", "hello"},   {"prepare", "prepared"},   {"run", "ran"},    {"finish", "finished"},
      {"fetch", "fetched"}, {"describe", "described"}, {"load", "loaded"}};
  const auto found = answers.find(request);
  if (found == answers.end()) throw Error("[child] there is no request '{}' with an answer", request);
  return found->second;
}

}  // namespace

// A machine without memory left is no machine: a sixteenth stays for everybody else.
size_t memory_limit(const ChildLimits& limits) {
  if (limits.memory_bytes > 0) return limits.memory_bytes;
  const size_t available = available_memory_bytes();
  return available - available / 16;
}

Child::Child(ChildSettings settings) : settings_(std::move(settings)) {
  settings_.limits.memory_bytes = memory_limit(settings_.limits);
  const StartedProcess started =
      start_process({settings_.command, settings_.environment, settings_.cores, settings_.nested});
  pid_ = started.pid;
  output_ = started.output;
  lines_ = std::make_unique<LineSocket>(started.socket);
  const timeval patience{10, 0};  // a child that reads nothing must not hold us up
  setsockopt(started.socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);

  try {
    const double seconds = std::max(hello_seconds, settings_.limits.seconds);
    hello_ = wait_message(now_seconds() + seconds, seconds);
    if (hello_.value("say", "") != "hello")
      lose(fmt::format("began with {} instead of hello", hello_.dump().substr(0, 200)));
    if (const Json version = hello_.value("protocol", Json()); version != protocol_version)
      lose(fmt::format("speaks protocol {}; {} is wanted", version.dump(), protocol_version));
  } catch (...) {
    end();
    throw;
  }
}

Child::~Child() {
  if (!ended_ && !(settings_.interrupted && *settings_.interrupted)) try {
      resume();
      lines_->send({{"do", "close"}});
      ended_within(farewell_seconds);
    } catch (const Error&) {  // it is gone, or reads nothing
    }
  end();
}

nlohmann::json Child::ask(const nlohmann::json& request, const std::function<void(const nlohmann::json&)>& notice) {
  asked_ = request.at("do").get<std::string>();
  const std::string wanted = answer_to(asked_);
  if (ended_) lose("is not running");
  if (asked_ == "prepare") last_output_.clear();  // what it printed for an earlier case is not about this one
  resume();
  try {
    lines_->send(request);
  } catch (const Error& error) {
    if (ended_within(1)) lose(describe_end(wait_status_));
    lose(fmt::format("does not read its requests ({})", error.what()));
  }
  const double seconds = settings_.limits.seconds;
  double deadline = now_seconds() + seconds;
  for (;;) {
    Json message = wait_message(deadline, seconds);
    const std::string say = message.value("say", "");
    if (say == wanted) return message;
    if (say == "error") {
      drain_output();
      throw ChildError(message.value("what", "the child gives no reason"), last_output_);
    }
    if (say != "progress" && say != "metric" && say != "checkpoint")
      lose(fmt::format("answered {} with '{}'; legal: {}, error, progress, metric, checkpoint", asked_,
                       say.substr(0, 100), wanted));
    deadline = now_seconds() + seconds;  // who says how far it is has not hung
    if (notice) notice(message);
  }
}

Tensor Child::fetch(const std::string& tensor, int id) {
  const SharedFile file;
  const Json answer = ask({{"do", "fetch"}, {"id", id}, {"tensor", tensor}, {"file", file.path()}});
  try {
    return file.read(parse_dtype(answer.at("dtype").get<std::string>()),
                     Shape(answer.at("shape").get<std::vector<Index>>()));
  } catch (const Json::exception& error) {
    throw Error("[child] the answer to fetch has no dtype or shape: {}", answer.dump());
  }
}

void Child::stop() {
  if (stopped_ || ended_) return;
  kill(-pid_, SIGSTOP);
  siginfo_t state{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &state, WSTOPPED | WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  stopped_ = true;
  cpu_at_stop_ = cpu_seconds();
}

void Child::resume() {
  if (!stopped_) return;
  idle_cpu_ += std::max(0.0, cpu_seconds() - cpu_at_stop_);
  stopped_ = false;
  kill(-pid_, SIGCONT);
}

double Child::cpu_seconds() const { return ended_ ? 0 : process_cpu_seconds(pid_); }

double Child::idle_cpu_seconds() const {
  return idle_cpu_ + (stopped_ ? std::max(0.0, cpu_seconds() - cpu_at_stop_) : 0.0);
}

size_t Child::peak_memory_bytes() const { return ended_ ? 0 : peak_resident_bytes(pid_); }

nlohmann::json Child::wait_message(double deadline, double seconds) {
  for (bool open = true;;) {
    try {
      if (const auto line = lines_->take_line()) {
        Json message = Json::parse(*line, nullptr, false);
        if (!message.is_object()) lose(fmt::format("sent a line that is no JSON object: {}", line->substr(0, 100)));
        return message;
      }
    } catch (const ChildLost&) {
      throw;
    } catch (const Error& error) {
      lose(fmt::format("broke the protocol: {}", error.what()));
    }
    if (!open) lose(ended_within(1) ? describe_end(wait_status_) : "closed its connection");
    check_limits(deadline, seconds);
    wait_for_bytes();
    const bool gone = ended();  // looked at before the last bytes are taken, so that none is missed
    open = lines_->fill() && !gone;
    drain_output();
  }
}

void Child::wait_for_bytes() {
  std::array<pollfd, 2> wait{pollfd{lines_->descriptor(), POLLIN, 0}, pollfd{output_, POLLIN, 0}};
  // A nested one has no limits of its own, and while it measures we must not take its core.
  poll(wait.data(), wait.size(), settings_.nested ? 1000 : look_milliseconds);
}

void Child::check_limits(double deadline, double seconds) {
  if (settings_.nested) return;
  if (settings_.interrupted && *settings_.interrupted) {
    try {
      lines_->send({{"do", "cancel"}});
      lines_->send({{"do", "close"}});
      ended_within(settings_.limits.cancel_seconds);
    } catch (const Error&) {  // it is gone
    }
    lose("interrupted");
  }
  const size_t limit = settings_.limits.memory_bytes;
  if (resident_bytes(pid_) > limit)
    lose(fmt::format("outgrew its memory limit of {:.1f} GiB", static_cast<double>(limit) / gibibyte));
  if (now_seconds() > deadline) lose(fmt::format("no answer within {:g} s", seconds));
}

bool Child::ended() {
  if (!ended_ && waitpid(pid_, &wait_status_, WNOHANG) == pid_) ended_ = true;
  return ended_;
}

bool Child::ended_within(double seconds) {
  const double deadline = now_seconds() + seconds;
  while (!ended() && now_seconds() < deadline) {
    drain_output();  // or it would wait for us
    usleep(1000);
  }
  return ended_;
}

void Child::drain_output() {
  std::array<char, 65536> block;
  while (output_ >= 0) {
    const ssize_t n = read(output_, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    if (n == 0) {
      close(output_);
      output_ = -1;
      return;
    }
    last_output_.append(block.data(), static_cast<size_t>(n));
    if (last_output_.size() > kept_output_bytes) last_output_.erase(0, last_output_.size() - kept_output_bytes);
    if (static_cast<size_t>(n) < block.size()) return;  // a child that never stops printing must not keep us here
  }
}

void Child::end() {
  if (pid_ < 0) return;
  if (!settings_.nested) kill(-pid_, SIGKILL);  // what it started, too
  if (!ended_) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
    }
    ended_ = true;
  }
  drain_output();
  if (output_ >= 0) close(output_);
  output_ = -1;
  pid_ = -1;  // the number may soon be another's
}

void Child::lose(const std::string& reason) {
  end();
  throw ChildLost(fmt::format("[child] {} (asked to {})", reason, asked_), last_output_);
}

}  // namespace d5
