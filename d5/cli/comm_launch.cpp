// SPDX-License-Identifier: Apache-2.0
#include "d5/cli/comm_launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <utility>

#include "d5/cli/interrupt.hpp"
#include "d5/distributed/communicators/threads.hpp"
#include "d5/measure/clock.hpp"
#include "d5/runner/process.hpp"

namespace d5 {
namespace {

using Json = nlohmann::json;

constexpr std::string_view mark = "d5-comm ";

// The program of a rank. No word of a command is above 128 KiB: a longer plan is a file, which all machines must see.
std::vector<std::string> rank_program(const CommPlan& plan, const RanksFolder& folder) {
  constexpr size_t longest = 100'000;
  std::string text = to_json(plan).dump();
  if (text.size() > longest) {
    const std::string file = folder.path() + "/plan.json";
    std::ofstream(file) << std::exchange(text, file);
  }
  return {own_program(), "comm-rank", text};
}

}  // namespace

void launch_comm(const CommPlan& plan, const LaunchOptions& options, const Tell& tell) {
  ProcessStart start;
  const RanksFolder folder;
  if (plan.communicator == "threads") {
    start.command = rank_program(plan, folder);
  } else {
    LaunchOptions with = options;
    with.segments = folder.segments();
    start.command = mpirun_command(plan.ranks, with, rank_program(plan, folder));
    start.environment = {{"TMPDIR", folder.path()}};
  }
  const StartedProcess process = start_process(start);
  std::string pending;
  std::vector<std::string> log;
  bool done = false, killed = false, silent = false;
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
      silent = silent || !was_interrupted();
      kill(-process.pid, killed ? SIGKILL : SIGTERM);
      if (killed) folder.end_processes();
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
  const std::string end = silent ? fmt::format("said nothing for {:.0f} s", silence) : describe_end(status);
  if (!done || status != 0) throw Error("{}", last_words_of(log, fmt::format("[comm] the ranks {}", end)));
}

int comm_rank_main(const std::string& text_or_file) {
  Json json = Json::parse(text_or_file, nullptr, false);
  if (json.is_discarded()) {
    std::ifstream file(text_or_file);
    if (!file)
      throw Error("[comm] {} cannot be read: for so many cases machines need a folder in common", text_or_file);
    json = Json::parse(file);
  }
  const CommPlan plan = comm_plan_from_json(json);
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
