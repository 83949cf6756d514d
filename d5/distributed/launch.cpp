// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <tuple>

#include "d5/core/error.hpp"
#include "d5/core/parallel.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

std::string output_of(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return "";
  std::string text;
  char buffer[512];
  while (const size_t n = fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  pclose(pipe);
  return text;
}

std::string program_called(const std::string& name) {
  std::string path = output_of("command -v " + name);
  while (!path.empty() && std::isspace(static_cast<unsigned char>(path.back()))) path.pop_back();
  return path;
}

// Messages above the eager limit travel as an emulated put by default; while both sides send, each waits for the
// other's permission behind its data, and an exchange runs at half the rate of the line. What the user set stays.
std::vector<std::pair<std::string, std::string>> tcp_settings() {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const auto& [name, value] : {std::pair{"btl_tcp_flags", "1"}, std::pair{"btl_tcp_eager_limit", "4194304"}})
    if (!std::getenv(fmt::format("OMPI_MCA_{}", name).c_str())) settings.emplace_back(name, value);
  return settings;
}

// One line a rank; Slurm places them. What is not given here is as the allocation was made.
std::vector<std::string> srun_command(int ranks, const LaunchOptions& options,
                                      const std::vector<std::string>& program) {
  std::string variables = "ALL";
  for (const auto& [name, value] : tcp_settings()) variables += fmt::format(",OMPI_MCA_{}={}", name, value);
  const std::string srun = program_called("srun");
  if (srun.empty()) throw UsageError("[launcher] srun is not in PATH; name mpirun, or use --communicator threads");
  std::vector<std::string> command{srun, fmt::format("--ntasks={}", ranks), "--cpu-bind=none", "--kill-on-bad-exit=1",
                                   "--export=" + variables};
  if (const int each = options.ranks_per_node; each > 0)
    command.insert(command.end(), {fmt::format("--nodes={}", machines_needed(ranks, each)),
                                   fmt::format("--ntasks-per-node={}", each)});
  command.insert(command.end(), options.mpirun_options.begin(), options.mpirun_options.end());
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

std::optional<int> number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text && std::isdigit(static_cast<unsigned char>(*text)) ? std::optional(std::atoi(text)) : std::nullopt;
}

void check_machines(int ranks, const LaunchOptions& options) {
  const int each = options.ranks_per_node;
  if (each < 0) throw UsageError("[launcher] {} ranks on each machine; legal: 1 and more, or 0: evenly", each);
  const int there = machines_there(options);
  if (each > 0 && machines_needed(ranks, each) > there)
    throw UsageError("[launcher] {} ranks, {} on each machine, need {} machines; there {} {}", ranks, each,
                     machines_needed(ranks, each), there == 1 ? "is" : "are", there);
}

}  // namespace

int machines_needed(int ranks, int ranks_per_node) { return (ranks + ranks_per_node - 1) / ranks_per_node; }

int machines_there(const LaunchOptions& options) {
  if (!options.hosts.empty()) return static_cast<int>(options.hosts.size());
  return std::getenv("SLURM_JOB_ID") ? number_of("SLURM_JOB_NUM_NODES").value_or(1) : 1;
}

// Open MPI, MPICH, and steps of srun. The shell of an allocation may be a step of one task, and has a rank, too.
std::optional<StartedRank> started_as_rank() {
  const bool slurm = std::getenv("SLURM_JOB_ID") != nullptr;
  for (const auto& [rank, size, outside_slurm_alone] :
       {std::tuple{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", false}, {"PMI_RANK", "PMI_SIZE", true}})
    if (const auto of = number_of(size); of && !(slurm && outside_slurm_alone))
      return StartedRank{number_of(rank).value_or(0), *of};
  if (const auto tasks = number_of("SLURM_STEP_NUM_TASKS"); slurm && tasks && *tasks > 1)
    return StartedRank{number_of("SLURM_PROCID").value_or(0), *tasks};
  return {};
}

std::vector<std::string> cluster_hosts() {
  std::vector<std::string> hosts;
  const char* const list = std::getenv("D5_CLUSTER_HOSTS");
  std::istringstream parts(list ? list : "");
  for (std::string host; std::getline(parts, host, ',');) hosts.push_back(host);
  return hosts;
}

std::string launcher_of(const LaunchOptions& options) {
  const char* const asked = std::getenv("D5_LAUNCHER");
  const std::string launcher = asked ? asked : "";
  if (!launcher.empty() && launcher != "mpirun" && launcher != "srun")
    throw UsageError("[launcher] '{}'; legal: mpirun, srun", launcher);
  if (!launcher.empty()) return launcher;
  const bool inside = std::getenv("SLURM_JOB_ID") && options.hosts.empty();
  return inside && !program_called("srun").empty() ? "srun" : "mpirun";
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::vector<std::string> mpirun_command(int ranks, const LaunchOptions& options,
                                        const std::vector<std::string>& rank_program) {
  check_machines(ranks, options);
  if (started_as_rank()) throw UsageError("[launcher] d5 starts its ranks itself; run it without mpirun");
  if (launcher_of(options) == "srun") return srun_command(ranks, options, rank_program);
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) || std::strchr("/._+-", c); };
  if (!std::ranges::all_of(options.mpirun, is_plain))
    throw UsageError("[mpirun] --mpirun '{}' is no name of a program; its options are given by --mpirun-option",
                     options.mpirun);
  const std::string version = output_of(options.mpirun + " --version");
  std::vector<std::string> command{program_called(options.mpirun)};
  const auto add = [&](std::initializer_list<const char*> words) {
    command.insert(command.end(), words.begin(), words.end());
  };
  const bool open_mpi = version.find("Open MPI") != std::string::npos || version.find("OpenRTE") != std::string::npos;
  if (!open_mpi && version.find("HYDRA") == std::string::npos && version.find("mpich") == std::string::npos)
    throw UsageError(
        "[mpirun] '{} --version' says nothing of Open MPI or MPICH; install one (Debian: openmpi-bin), name it "
        "with --mpirun, or use --communicator threads",
        options.mpirun);
  if (open_mpi) {
    const bool five = version.find("Open MPI) 5") != std::string::npos || version.find("PRRTE") != std::string::npos;
    if (geteuid() == 0) add({"--allow-run-as-root"});
    five ? add({"--map-by", ":OVERSUBSCRIBE"}) : add({"--oversubscribe"});
    add({"--bind-to", "none"});
    if (five && options.elastic) add({"--with-ft", "ulfm"});
    const int here = options.hosts.empty() ? ranks : 1;
    if (here > usable_cores() || !options.hosts.empty()) add({"--mca", "mpi_yield_when_idle", "1"});
    for (const auto& [name, value] : tcp_settings()) add({"--mca", name.c_str(), value.c_str()});
    if (options.hosts.empty() && !options.segments.empty())
      for (const char* name : {"btl_vader_backing_directory", "btl_sm_backing_directory"})  // of Open MPI 4 and 5
        if (!std::getenv(fmt::format("OMPI_MCA_{}", name).c_str())) add({"--mca", name, options.segments.c_str()});
  }
  if (!options.hosts.empty()) {
    const size_t n = options.ranks_per_node > 0 ? static_cast<size_t>(machines_needed(ranks, options.ranks_per_node))
                                                : options.hosts.size();
    std::string list;
    for (size_t i = 0; i < n; ++i) {
      const size_t slots = (static_cast<size_t>(ranks) + n - 1 - i) / n;
      if (slots > 0) list += fmt::format("{}{}:{}", list.empty() ? "" : ",", options.hosts[i], slots);
    }
    command.insert(command.end(), {open_mpi ? "-H" : "-hosts", list});
  }
  command.insert(command.end(), options.mpirun_options.begin(), options.mpirun_options.end());
  command.insert(command.end(), {"-n", std::to_string(ranks)});
  command.insert(command.end(), rank_program.begin(), rank_program.end());
  return command;
}

// Jobs that begin and end at the same time would make and remove one and the same folder of Open MPI's.
LaunchedRanks::LaunchedRanks(const std::vector<std::string>& command, const RanksFolder& folder) : folder_(folder) {
  try {
    start(command);
  } catch (...) {
    end();
    throw;
  }
}

void LaunchedRanks::start(const std::vector<std::string>& command) {
  std::vector<std::string> variables{"TMPDIR=" + folder_.path()};
  for (char** variable = environ; *variable; ++variable)
    if (!std::string_view(*variable).starts_with("TMPDIR=")) variables.emplace_back(*variable);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("[mpirun] no pipe: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  const auto pointers = [](const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
    all.push_back(nullptr);
    return all;
  };
  const int error = posix_spawnp(&pid_, command.front().c_str(), &actions, nullptr, pointers(command).data(),
                                 pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  output_ = ends[0];
  if (error == 0) return;
  pid_ = -1;
  throw Error("[mpirun] {} cannot be started: {}", command.front(), std::strerror(error));
}

LaunchedRanks::~LaunchedRanks() { end(); }

void LaunchedRanks::end() noexcept {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);  // mpirun ends its ranks
    for (int tenths = 0; tenths < 50 && waitpid(pid_, &status_, WNOHANG) == 0; ++tenths) usleep(100000);
    if (waitpid(pid_, &status_, WNOHANG) == 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status_, 0);
      folder_.end_processes();
    }
    status_ = status_ == 0 ? -1 : status_;
  }
  pid_ = -1;
  if (output_ >= 0) close(output_);
  output_ = -1;
}

bool LaunchedRanks::next_line(std::string& line) {
  constexpr double grace_s = 30;
  for (;;) {
    if (const size_t at = pending_.find('\n'); at != std::string::npos) {
      line = pending_.substr(0, at);
      pending_.erase(0, at + 1);
      if (line.starts_with("d5: ") && gave_up_ == 0) gave_up_ = now_seconds();
      return true;
    }
    if (output_ < 0) return false;
    pollfd waits{output_, POLLIN, 0};
    const int ready = poll(&waits, 1, 1000);
    if (gave_up_ > 0 && now_seconds() - gave_up_ > grace_s) {
      end();
      return false;
    }
    if (ready <= 0) continue;
    char buffer[65536];
    const ssize_t n = read(output_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0) {
      pending_.append(buffer, static_cast<size_t>(n));
      continue;
    }
    close(output_);
    output_ = -1;
    waitpid(pid_, &status_, 0);
    pid_ = -1;
    if (!pending_.empty()) pending_ += '\n';
  }
}

bool LaunchedRanks::succeeded() { return pid_ < 0 && status_ == 0; }

void LaunchedRanks::remember(const std::string& line) {
  if (!line.empty()) log_.push_back(line);
}

std::string LaunchedRanks::last_words() const {
  return last_words_of(log_, "[mpirun] the ranks ended before their work did");
}

std::string last_words_of(const std::vector<std::string>& log, const std::string& otherwise) {
  const auto first_with = [&](std::initializer_list<std::string_view> parts) -> const std::string* {
    for (const std::string& line : log)
      for (const std::string_view part : parts)
        if (line.find(part) != std::string::npos) return &line;
    return nullptr;
  };
  for (const std::string& line : log)
    if (line.starts_with("d5: ")) return line.substr(4);
  if (const std::string* line = first_with({"process rank", "Process name"})) return "[mpirun] " + *line;
  // Of ssh, or what stands for it; mpirun's own words about that are a page on what else it might be.
  if (const std::string* line = first_with({"Could not resolve hostname", "No route to host", "Connection refused",
                                            "Connection timed out", "Permission denied (", "Host key verification"}))
    return "[mpirun] a machine cannot be reached: " + *line;
  std::string all = otherwise;
  for (size_t i = log.size() > 12 ? log.size() - 12 : 0; i < log.size(); ++i) all += "\n  " + log[i];
  return all;
}

}  // namespace d5
