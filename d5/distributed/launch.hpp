// SPDX-License-Identifier: Apache-2.0
// The command that starts ranks: mpirun of Open MPI 4 and 5, or of MPICH.
#pragma once

#include <string>
#include <vector>

namespace d5 {

struct LaunchOptions {
  std::string mpirun = "mpirun";
  std::vector<std::string> hosts;           // of ranks, in turn; empty: this machine
  std::vector<std::string> mpirun_options;  // further ones of the user
};

// UsageError where it is no mpirun that is known.
std::vector<std::string> mpirun_command(int ranks, const LaunchOptions&, const std::vector<std::string>& program);
std::string own_program();  // the file of this process

}  // namespace d5
