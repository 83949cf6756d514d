// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/pool.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "d5/core/parallel.hpp"
#include "d5/measure/isa.hpp"

namespace d5 {
namespace {

// "NAME=value;NAME=value": a case is flat, so its variables are one text.
std::vector<std::pair<std::string, std::string>> variables(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> result;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    const size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw UsageError("[runner] environment '{}' is not of the form NAME=value;NAME=value", text);
    result.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return result;
}

}  // namespace

// A user's kernel gets a child of its own: it may crash, and launches are to differ for it as for a backend.
// Arithmetic, too: libraries read some of their switches once in a process.
std::string child_key(const Json& fields) {
  Json key = Json::array();
  for (const char* name :
       {"backend", "kernel", "threads", "processes", "ranks", "device", "environment", "dtype", "math"})
    key.push_back(fields.value(name, Json()));
  return key.dump();
}

ChildLimits limits_of(const Json& fields, ChildLimits limits) {
  const bool processes = fields.value("communicator", "") == "mpi";
  if (fields.contains("rank_limit") && (processes || fields.value("ranks", 1) > 1))
    limits.seconds = std::max(limits.seconds, 2 * fields["rank_limit"].get<double>() + 60);
  if (processes) limits.cancel_seconds = 15;
  return limits;
}

Child& ChildPool::take(const std::string& key, const Json& fields) {
  for (auto& [other, child] : children_)
    if (other != key) child->stop();
  auto& child = children_[key];
  try {
    if (!child) child = std::make_unique<Child>(settings(fields));
  } catch (...) {
    children_.erase(key);
    throw;
  }
  child->resume();
  return *child;
}

Child* ChildPool::find(const std::string& key) {
  const auto found = children_.find(key);
  return found == children_.end() ? nullptr : found->second.get();
}

void ChildPool::discard(const std::string& key) { children_.erase(key); }

void ChildPool::clear() { children_.clear(); }

ChildSettings ChildPool::settings(const Json& fields) const {
  const int threads = fields.value("threads", usable_cores());
  ChildSettings settings;
  settings.command = {options_.program.empty() ? "/proc/self/exe" : options_.program, "worker"};
  settings.environment = thread_environment(threads);
  settings.environment.insert(settings.environment.end(), options_.environment.begin(), options_.environment.end());
  if (const std::string cap = usable_isa().onednn_cap(); !cap.empty())
    for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
      if (!std::getenv(name)) settings.environment.emplace_back(name, cap);
  for (auto& variable : variables(fields.value("environment", ""))) settings.environment.push_back(std::move(variable));
  if (options_.pin) settings.cores = cores_for(threads * fields.value("processes", 1) * fields.value("ranks", 1));
  settings.limits = limits_of(fields, options_.limits);
  settings.interrupted = &interrupted_;
  return settings;
}

}  // namespace d5
