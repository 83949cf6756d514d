// SPDX-License-Identifier: Apache-2.0
// What must not outlive its owner, however that ends (SIGKILL, too): an emulated cluster, or ranks and their folder. A
// process in a session of its own waits for the owner's end and then removes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace d5 {

// A process; its number alone may soon be another's.
struct ProcessName {
  int pid = 0;         // 0: nobody
  uint64_t start = 0;  // in clock ticks since the machine's start; 0: it was not there
  bool lives() const;
  bool operator==(const ProcessName&) const = default;
};
ProcessName process_name(int pid);

class Watcher {
 public:
  // "cluster" and its name, or "ranks" and their folder.
  Watcher(const ProcessName& owner, const std::string& kind, const std::string& what);
  ~Watcher();                           // there is nothing left to be removed
  void leave() noexcept { pid_ = -1; }  // it outlives this process
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  int pid_ = -1;
};

// The program of such a process: pid and start of the owner, kind, what.
int watcher_main(const std::vector<std::string>& arguments);

// A folder for the files of ranks of one launch; it is their TMPDIR, and by that their processes are known. Another of
// the same name for memory that they share, of which the library leaves some behind where ranks are killed.
class RanksFolder {
 public:
  RanksFolder();
  ~RanksFolder();
  RanksFolder(const RanksFolder&) = delete;
  RanksFolder& operator=(const RanksFolder&) = delete;
  const std::string& path() const { return path_; }
  const std::string& segments() const { return segments_; }  // empty: there is no memory that is a file system
  void end_processes() const;                                // that outlived mpirun

 private:
  std::string path_, segments_;
  std::unique_ptr<Watcher> watcher_;
};

}  // namespace d5
