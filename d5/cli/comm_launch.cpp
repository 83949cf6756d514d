// SPDX-License-Identifier: Apache-2.0
#include "d5/cli/comm_launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "d5/cli/interrupt.hpp"
#include "d5/core/parallel.hpp"
#include "d5/distributed/communicators/threads.hpp"
#include "d5/measure/clock.hpp"
#include "d5/runner/process.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

constexpr std::string_view mark = "d5-comm ";

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::string output_of(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return "";
  std::string text;
  char buffer[512];
  while (const size_t n = fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  pclose(pipe);
  return text;
}

std::vector<std::string> mpirun_command(const CommPlan& plan, const LaunchOptions& options) {
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) || std::strchr("/._+-", c); };
  if (!std::ranges::all_of(options.mpirun, is_plain))
    throw UsageError("[comm] --mpirun '{}' is no name of a program; its options are given by --mpirun-option",
                     options.mpirun);
  const std::string version = output_of(options.mpirun + " --version");
  std::string program = output_of("command -v " + options.mpirun);
  while (!program.empty() && std::isspace(static_cast<unsigned char>(program.back()))) program.pop_back();
  std::vector<std::string> command{program};
  const auto add = [&](std::initializer_list<const char*> words) {
    command.insert(command.end(), words.begin(), words.end());
  };
  const bool open_mpi = version.find("Open MPI") != std::string::npos || version.find("OpenRTE") != std::string::npos;
  if (!open_mpi && version.find("HYDRA") == std::string::npos && version.find("mpich") == std::string::npos)
    throw UsageError(
        "[comm] '{} --version' says nothing of Open MPI or MPICH; install one (Debian: openmpi-bin), name it "
        "with --mpirun, or use --communicator threads",
        options.mpirun);
  if (open_mpi) {
    const bool five = version.find("Open MPI) 5") != std::string::npos || version.find("PRRTE") != std::string::npos;
    if (geteuid() == 0) add({"--allow-run-as-root"});
    five ? add({"--map-by", ":OVERSUBSCRIBE"}) : add({"--oversubscribe"});
    add({"--bind-to", "none"});
    const int here = options.hosts.empty() ? plan.ranks : 1;
    if (here > usable_cores() || !options.hosts.empty()) add({"--mca", "mpi_yield_when_idle", "1"});
  }
  if (!options.hosts.empty()) {
    const size_t n = options.hosts.size();
    std::string list;
    for (size_t i = 0; i < n; ++i) {
      const size_t slots = (static_cast<size_t>(plan.ranks) + n - 1 - i) / n;
      if (slots > 0) list += fmt::format("{}{}:{}", list.empty() ? "" : ",", options.hosts[i], slots);
    }
    command.insert(command.end(), {open_mpi ? "-H" : "-hosts", list});
  }
  command.insert(command.end(), options.mpirun_options.begin(), options.mpirun_options.end());
  command.insert(command.end(), {"-n", std::to_string(plan.ranks), own_program(), "comm-rank", to_json(plan).dump()});
  return command;
}

// What the ranks and mpirun said, in one message: a rank's own words, else mpirun's on which rank it lost.
std::string last_words(const std::vector<std::string>& log, const std::string& end) {
  for (const std::string& line : log)
    if (line.starts_with("d5: ")) return line.substr(4);
  for (const std::string& line : log)
    if (line.find("process rank") != std::string::npos || line.find("Process name") != std::string::npos)
      return "[comm] " + line;
  std::string all;
  for (size_t i = log.size() > 12 ? log.size() - 12 : 0; i < log.size(); ++i) all += "\n  " + log[i];
  return fmt::format("[comm] the ranks {}{}", end, all);
}

}  // namespace

void launch_comm(const CommPlan& plan, const LaunchOptions& options, const Tell& tell) {
  ProcessStart start;
  if (plan.communicator == "threads")
    start.command = {own_program(), "comm-rank", to_json(plan).dump()};
  else
    start.command = mpirun_command(plan, options);
  const StartedProcess process = start_process(start);
  std::string pending;
  std::vector<std::string> log;
  bool done = false, killed = false;
  double heard = now_seconds();
  const double silence = 3 * plan.time_limit_s + 30;
  const auto take = [&](const std::string& line) {
    // mpirun may put its own words on the same line, before ours.
    if (const size_t at = line.find(mark); at != std::string::npos) {
      const Json told = Json::parse(line.substr(at + mark.size()), nullptr, false);
      if (told.is_discarded()) return log.push_back(line);
      done = done || told.value("what", "") == "done";
      tell(told);
    } else if (!line.empty()) {
      log.push_back(line);
    }
  };
  for (;;) {
    pollfd waits{process.output, POLLIN, 0};
    poll(&waits, 1, 200);
    char buffer[65536];
    ssize_t n = 0;
    while ((n = read(process.output, buffer, sizeof buffer)) > 0) {
      heard = now_seconds();
      pending.append(buffer, static_cast<size_t>(n));
      for (size_t end; (end = pending.find('\n')) != std::string::npos;) {
        take(pending.substr(0, end));
        pending.erase(0, end + 1);
      }
    }
    if (n == 0) break;
    if (was_interrupted() || now_seconds() - heard > silence) {
      kill(-process.pid, killed ? SIGKILL : SIGTERM);
      if (killed) break;
      killed = true;
      heard = now_seconds() - silence + 5;
    }
  }
  int status = 0;
  waitpid(process.pid, &status, 0);
  close(process.output);
  close(process.socket);
  if (!pending.empty()) take(pending);
  if (was_interrupted()) throw Error("[comm] interrupted");
  if (!done || status != 0) throw Error("{}", last_words(log, describe_end(status)));
}

int comm_rank_main(const std::string& text) {
  const CommPlan plan = comm_plan_from_json(Json::parse(text));
  const communicators::Entry& entry = open_communicator(plan.communicator);
  const Tell tell = [](const Json& told) { std::cout << fmt::format("{}{}\n", mark, told.dump()) << std::flush; };
  if (!entry.world) {
    run_ranks({.ranks = plan.ranks, .per_node = plan.ranks_per_node, .time_limit_s = plan.time_limit_s},
              [&](Communicator& c) { run_comm_plan(c, entry, plan, tell); });
    return 0;
  }
  std::shared_ptr<Transport> world = entry.world();
  try {
    Communicator c(world);
    run_comm_plan(c, entry, plan, tell);
  } catch (const std::exception& error) {
    entry.abort(*world, error.what());
    return 1;
  }
  return 0;
}

}  // namespace d5
