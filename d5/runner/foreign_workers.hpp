// SPDX-License-Identifier: Apache-2.0
// Which workers in other languages there are, and how they are started. A worker is a program beside a file that
// describes it, pytorch.py and pytorch.toml:
//   program  = "pytorch.py"
//   packages = ["torch"]                   in Python: what it must be able to import; without, the program is executed
//   install  = "pip install torch"         what to do when it is not there
//   [backends]
//   pytorch  = "PyTorch in Python, eager"  each name is a backend; the program gets it as its argument
// They lie in share/deep500/workers beside the library; D5_WORKER_PATH names more folders, with colons between them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "d5/backends/backend.hpp"

namespace d5 {

struct ForeignWorker {
  BackendStatus status;  // judged by the files that are there; what is true the worker itself says with hello
  std::string install;
  std::vector<std::string> command;                              // empty: there is no interpreter
  std::vector<std::pair<std::string, std::string>> environment;  // PYTHONPATH, so that d5_worker is found
};
// All of them, nothing started. The first folder that has a name wins. A file that cannot be read is an entry that is
// off, with the reason.
std::vector<ForeignWorker> foreign_workers();

// The interpreter for a worker: what D5_PYTHON_NAME (the worker's file, in capitals) or D5_PYTHON say; else the first
// of build/dependencies/NAME, build/dependencies, the PATH and /usr that has the packages; else the PATH's. Empty:
// none. UsageError where a variable names none.
std::filesystem::path find_python(const std::string& worker, const std::vector<std::string>& packages);
// Whether a package lies in a folder where this interpreter looks for packages.
bool has_package(const std::filesystem::path& python, const std::string& package);

}  // namespace d5
