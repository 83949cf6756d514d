// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/launch.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "d5/core/error.hpp"
#include "d5/core/parallel.hpp"

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
  std::vector<std::string> command{"srun", fmt::format("--ntasks={}", ranks), "--cpu-bind=none", "--kill-on-bad-exit=1",
                                   "--export=" + variables};
  command.insert(command.end(), options.mpirun_options.begin(), options.mpirun_options.end());
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

}  // namespace

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
    const int here = options.hosts.empty() ? ranks : 1;
    if (here > usable_cores() || !options.hosts.empty()) add({"--mca", "mpi_yield_when_idle", "1"});
    for (const auto& [name, value] : tcp_settings()) add({"--mca", name.c_str(), value.c_str()});
  }
  if (!options.hosts.empty()) {
    const size_t n = options.hosts.size();
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

}  // namespace d5
