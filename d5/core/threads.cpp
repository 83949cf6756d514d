// SPDX-License-Identifier: Apache-2.0
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "d5/core/error.hpp"
#include "d5/core/parallel.hpp"

namespace d5 {
namespace {

std::vector<int> affinity() {
  std::vector<int> cores;
  for (int most = 1024; most <= 1 << 20; most *= 2) {  // the kernel refuses a mask that is too small
    cpu_set_t* mask = CPU_ALLOC(most);
    const size_t bytes = CPU_ALLOC_SIZE(most);
    CPU_ZERO_S(bytes, mask);
    const bool read = sched_getaffinity(0, bytes, mask) == 0;
    for (int core = 0; read && core < most; ++core)
      if (CPU_ISSET_S(core, bytes, mask)) cores.push_back(core);
    CPU_FREE(mask);
    if (read) break;
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

// Whole cores that one control group grants; "max" (version 2) and -1 (version 1) do not limit.
double group_cores(const std::filesystem::path& folder) {
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  double quota = -1, period = 0;
  if (std::ifstream file(folder / "cpu.max"); file) {
    if (!(file >> quota >> period)) return unlimited;
  } else {
    std::ifstream(folder / "cpu.cfs_quota_us") >> quota;
    std::ifstream(folder / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : unlimited;
}

// The tightest quota of this process's group and the groups above it. A container may show the host's path while its
// own files stand at the root, so every part of the path is tried.
double quota_cores() {
  double least = std::numeric_limits<double>::infinity();
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "0::/path" or "3:cpu,cpuacct:/path"
    const size_t one = line.find(':'), two = line.find(':', one + 1);
    if (one == std::string::npos || two == std::string::npos) continue;
    const std::string controllers = line.substr(one + 1, two - one - 1);
    std::istringstream names(controllers);
    bool cpu = controllers.empty();
    for (std::string name; std::getline(names, name, ',');) cpu = cpu || name == "cpu";
    if (!cpu) continue;
    const std::filesystem::path root = std::filesystem::path("/sys/fs/cgroup") / controllers;
    std::filesystem::path folder = std::filesystem::path(line.substr(two + 1)).relative_path();
    for (;; folder = folder.parent_path()) {
      least = std::min(least, group_cores(root / folder));
      if (folder.empty()) break;
    }
  }
  return least;
}

// What tells physical cores apart; a machine that does not say has one thread per core.
std::pair<int, int> physical_core(int core) {
  const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", core);
  int package = -1, id = -1;
  std::ifstream(folder + "physical_package_id") >> package;
  if (!(std::ifstream(folder + "core_id") >> id)) return {-1, core};
  return {package, id};
}

std::atomic<int> chosen{0};

}  // namespace

int usable_cores() {
  const auto cores = static_cast<double>(affinity().size());
  return static_cast<int>(std::max(1.0, std::min(cores, quota_cores())));
}

int threads() {
  const int n = chosen.load(std::memory_order_relaxed);
  if (n > 0) return n;
  static const int by_default = usable_cores();
  return by_default;
}

void set_threads(int n) {
  if (n < 1) throw Error("[threads] {} threads are asked for; at least 1 is needed", n);
  chosen = n;
  apply_threads(n);
}

std::vector<std::pair<std::string, std::string>> thread_environment(int n) {
  if (n < 1) throw Error("[threads] {} threads are asked for; at least 1 is needed", n);
  std::vector<std::pair<std::string, std::string>> environment;
  for (const char* name :
       {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"})
    environment.emplace_back(name, std::to_string(n));
  environment.emplace_back("OMP_DYNAMIC", "false");
  environment.emplace_back("MKL_DYNAMIC", "FALSE");
  // The process is pinned as a whole: binding would shrink the main thread's mask, which later threads inherit.
  environment.emplace_back("OMP_PROC_BIND", "false");
  // Idle threads sleep, so that a waiting child takes nothing from the one measured; they first spin for a few
  // milliseconds, because waking costs more than a small kernel.
  environment.emplace_back("OMP_WAIT_POLICY", "passive");
  environment.emplace_back("GOMP_SPINCOUNT", "300000");
  environment.emplace_back("KMP_BLOCKTIME", "3");
#if defined(__x86_64__) && defined(__GNUC__)
  // OpenBLAS before 0.3.22 takes this processor for one without AVX. Whoever sets the variable knows better.
  if (__builtin_cpu_is("sapphirerapids") && !std::getenv("OPENBLAS_CORETYPE"))
    environment.emplace_back("OPENBLAS_CORETYPE", "SkylakeX");
#endif
  return environment;
}

std::vector<int> cores_for(int n) {
  if (n < 1) throw Error("[threads] {} threads are asked for; at least 1 is needed", n);
  std::vector<int> first, second;
  std::set<std::pair<int, int>> seen;
  const std::vector<int> usable = affinity();
  for (auto core = usable.rbegin(); core != usable.rend(); ++core)
    (seen.insert(physical_core(*core)).second ? first : second).push_back(*core);
  first.insert(first.end(), second.begin(), second.end());
  if (first.size() > static_cast<size_t>(n)) first.resize(static_cast<size_t>(n));
  return first;
}

}  // namespace d5
