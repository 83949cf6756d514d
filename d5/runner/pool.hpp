// SPDX-License-Identifier: Apache-2.0
// The children of a run, one for each (backend, kernel, threads, device, environment, dtype, math). At most one of them
// is running; the others are stopped.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "d5/runner/runner.hpp"

namespace d5 {

// Cases with the same key can share a child.
std::string child_key(const Json& fields);

// Of the child of a case. One that waits for ranks hears of a lost one from them, by name: it has the time that this
// takes (rank_limit, twice: those who wait may wait for each other), and when it is cancelled the time to end them.
ChildLimits limits_of(const Json& fields, ChildLimits);

class ChildPool {
 public:
  ChildPool(const RunOptions& options, const std::atomic<bool>& interrupted)
      : options_(options), interrupted_(interrupted) {}

  // The child of this key, started where there is none; all others are stopped.
  Child& take(const std::string& key, const Json& fields);
  Child* find(const std::string& key);  // null where none is there
  void discard(const std::string& key);
  void clear();

 private:
  ChildSettings settings(const Json& fields) const;
  const RunOptions& options_;
  const std::atomic<bool>& interrupted_;
  std::map<std::string, std::unique_ptr<Child>> children_;
};

}  // namespace d5
