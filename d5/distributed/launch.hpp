// SPDX-License-Identifier: Apache-2.0
// The command that starts ranks: mpirun of Open MPI 4 and 5, or of MPICH; srun inside a Slurm allocation.
#pragma once

#include <string>
#include <vector>

namespace d5 {

struct LaunchOptions {
  std::string mpirun = "mpirun";
  std::vector<std::string> hosts;           // of ranks, in turn; empty: this machine
  std::vector<std::string> mpirun_options;  // further ones of the user
};

// mpirun or srun: what D5_LAUNCHER says, else srun inside an allocation (SLURM_JOB_ID) where it is installed and no
// hosts are named. UsageError where D5_LAUNCHER is neither.
std::string launcher_of(const LaunchOptions&);
constexpr const char* srun_warning =
    "the ranks were started by srun, which was tested with a stand-in only, never with a real Slurm";

// UsageError where it is no mpirun that is known.
std::vector<std::string> mpirun_command(int ranks, const LaunchOptions&, const std::vector<std::string>& program);
std::string own_program();  // the file of this process

}  // namespace d5
