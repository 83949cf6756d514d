// SPDX-License-Identifier: Apache-2.0
// The command that starts ranks: mpirun of Open MPI 4 and 5, or of MPICH; srun inside a Slurm allocation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "d5/distributed/watcher.hpp"

namespace d5 {

struct LaunchOptions {
  std::string mpirun = "mpirun";
  std::vector<std::string> hosts;           // of ranks, in turn; empty: this machine
  std::vector<std::string> mpirun_options;  // further ones of the user
  int ranks_per_node = 0;                   // on each machine, on as few as that takes; 0: evenly on all
  bool elastic = false;                     // a rank that is lost does not end the others, where mpirun can do that
  std::string segments = {};                // a folder for memory that ranks of this machine share; empty: any
};

std::vector<std::string>
cluster_hosts();  // of D5_CLUSTER_HOSTS, as `d5 cluster exec` sets it; none where it is not set

// mpirun or srun: what D5_LAUNCHER says, else srun inside an allocation (SLURM_JOB_ID) where it is installed and no
// hosts are named. UsageError where D5_LAUNCHER is neither.
std::string launcher_of(const LaunchOptions&);

int machines_needed(int ranks, int ranks_per_node);
// Those that the launcher can reach: hosts that are named, the nodes of an allocation, or this one.
int machines_there(const LaunchOptions&);

// A rank of an mpirun or srun that started d5 itself.
struct StartedRank {
  int rank, size;
};
std::optional<StartedRank> started_as_rank();

// UsageError where it is no mpirun that is known, where there are fewer machines than ranks_per_node needs, or where
// this process is itself a rank of mpirun, which cannot be nested.
std::vector<std::string> mpirun_command(int ranks, const LaunchOptions&, const std::vector<std::string>& program);
std::string own_program();  // the file of this process

// Of what ranks and mpirun printed: a rank's own words ("d5: ..."), else mpirun's on which rank it lost or which
// machine it did not reach, else `otherwise` with the last lines.
std::string last_words_of(const std::vector<std::string>& log, const std::string& otherwise);

// Ranks under way: what they and mpirun print, in this process's group. The folder lives as long as they do.
class LaunchedRanks {
 public:
  LaunchedRanks(const std::vector<std::string>& command, const RanksFolder&);
  ~LaunchedRanks();  // ends what still runs
  LaunchedRanks(const LaunchedRanks&) = delete;
  LaunchedRanks& operator=(const LaunchedRanks&) = delete;

  // False: there are no more, the job has ended. Once a rank has said why it gives up ("d5: ..."), the others have half
  // a minute to end.
  bool next_line(std::string&);
  bool succeeded();                        // after that: all ranks ended well
  std::string last_words() const;          // a rank's own, else mpirun's on which rank it lost, else the last lines
  void remember(const std::string& line);  // of what is not understood otherwise

 private:
  void start(const std::vector<std::string>& command);
  void end() noexcept;
  const RanksFolder& folder_;
  int pid_ = -1, output_ = -1, status_ = 0;
  std::string pending_;
  std::vector<std::string> log_;
  double gave_up_ = 0;
};

}  // namespace d5
