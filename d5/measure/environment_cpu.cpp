// SPDX-License-Identifier: Apache-2.0
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "d5/core/parallel.hpp"
#include "d5/measure/cache.hpp"
#include "d5/measure/environment_parts.hpp"
#include "d5/measure/isa.hpp"
#include "d5/measure/kernel_files.hpp"

namespace d5 {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path cpus = "/sys/devices/system/cpu";

// The topology as the kernel tells; a physical core is known by its package and number.
json topology() {
  std::set<std::string> packages;
  std::set<std::pair<std::string, std::string>> cores;
  int logical = 0;
  for (; fs::exists(cpus / ("cpu" + std::to_string(logical)) / "topology"); ++logical) {
    const fs::path folder = cpus / ("cpu" + std::to_string(logical)) / "topology";
    const std::string package = first_line(folder / "physical_package_id");
    packages.insert(package);
    cores.emplace(package, first_line(folder / "core_id"));
  }
  if (logical == 0) return {{"logical", usable_cores()}, {"cores", nullptr}, {"sockets", nullptr}, {"smt", nullptr}};
  return {{"logical", logical},
          {"cores", cores.size()},
          {"sockets", packages.size()},
          {"smt", logical > static_cast<int>(cores.size())}};
}

json caches() {
  json list = json::array();
  for (const CacheLevel& c : cache_levels())
    list.push_back({{"level", c.level},
                    {"type", c.type},
                    {"bytes", c.bytes},
                    {"shared_by", c.shared_by},
                    {"instances", c.instances}});
  return list;
}

json numa() {
  json nodes = json::array();
  for (int i = 0;; ++i) {
    const fs::path folder = fs::path("/sys/devices/system/node") / ("node" + std::to_string(i));
    if (!fs::exists(folder)) break;
    nodes.push_back({{"cpus", first_line(folder / "cpulist")}, {"distances", first_line(folder / "distance")}});
  }
  return nodes;
}

// Megahertz from a file in kilohertz; null where the kernel does not say, as in most virtual machines.
json megahertz(const char* name) {
  const int64_t kilohertz = parse_size(first_line(cpus / "cpu0/cpufreq" / name));
  return kilohertz > 0 ? json(kilohertz / 1000) : json();
}

json text_or_null(const std::string& text) { return text.empty() ? json() : json(text); }

}  // namespace

std::string cpu_model() {
  for (const char* name : {"model name", "Model", "Hardware", "cpu"})
    if (const std::string model = field("/proc/cpuinfo", name); !model.empty()) return model;
  return "unknown";
}

json cpu_environment() {
  json cpu = topology();
  utsname system{};
  uname(&system);
  cpu["model"] = cpu_model();
  cpu["vendor"] = text_or_null(field("/proc/cpuinfo", "vendor_id"));
  cpu["family"] = text_or_null(field("/proc/cpuinfo", "cpu family"));
  cpu["model_number"] = text_or_null(field("/proc/cpuinfo", "model"));
  cpu["stepping"] = text_or_null(field("/proc/cpuinfo", "stepping"));
  cpu["microcode"] = text_or_null(field("/proc/cpuinfo", "microcode"));
  cpu["architecture"] = system.machine;
  cpu["usable"] = usable_cores();
  const Isa& isa = usable_isa();
  cpu["isa"] = {
      {"best", isa.best()}, {"features", isa.features()}, {"onednn_cap", isa.onednn_cap()}, {"traps", isa.traps()}};
  cpu["caches"] = caches();
  cpu["numa"] = numa();
  cpu["governor"] = text_or_null(first_line(cpus / "cpu0/cpufreq/scaling_governor"));
  cpu["driver"] = text_or_null(first_line(cpus / "cpu0/cpufreq/scaling_driver"));
  cpu["mhz_min"] = megahertz("cpuinfo_min_freq");
  cpu["mhz_max"] = megahertz("cpuinfo_max_freq");
  const std::string no_turbo = first_line(cpus / "intel_pstate/no_turbo"), boost = first_line(cpus / "cpufreq/boost");
  cpu["turbo"] = !no_turbo.empty() ? json(no_turbo == "0") : !boost.empty() ? json(boost == "1") : json();
  return cpu;
}

}  // namespace d5
