// SPDX-License-Identifier: Apache-2.0
#include "d5/distributed/watcher.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "d5/core/error.hpp"
#include "d5/distributed/cluster.hpp"
#include "d5/distributed/launch.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void wait_for_end(const ProcessName& owner) {
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, owner.pid, 0U));
  while (owner.lives()) {  // asked after it was opened: else it may be another's
    pollfd waits{descriptor, POLLIN, 0};
    poll(&waits, 1, descriptor < 0 ? 1000 : -1);  // a kernel before 5.3 has no such descriptor
  }
}

constexpr std::string_view folder_start = "d5-ranks-";

fs::path segments_of(const std::string& folder) { return fs::path("/dev/shm") / fs::path(folder).filename(); }

std::vector<int> ranks_of(const std::string& folder) {
  const std::string variable = "TMPDIR=" + folder;
  std::vector<int> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 1 || pid == getpid()) continue;
    std::istringstream variables(contents(entry.path() / "environ"));
    for (std::string one; std::getline(variables, one, '\0');)
      if (one == variable) all.push_back(pid);
  }
  return all;
}

// mpirun puts its ranks in process groups of their own, where no signal to ours reaches them. A moment for it to end
// those of other machines.
void end_ranks(const std::string& folder) {
  for (int turn = 0; turn < 50; ++turn) {
    const std::vector<int> left = ranks_of(folder);
    if (left.empty()) return;
    if (turn == 0 || turn >= 20)
      for (const int pid : left) kill(pid, turn == 0 ? SIGTERM : SIGKILL);
    usleep(100'000);
  }
}

}  // namespace

ProcessName process_name(int pid) {
  // The second field, a name in parentheses, may hold anything; the start is the 20th after it, the state the first.
  const std::string text = contents(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = text.rfind(')');
  if (pid <= 0 || name_end == std::string::npos) return {pid, 0};
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return {pid, 0};
  for (int i = 0; i < 18; ++i) fields >> field;
  uint64_t start = 0;
  fields >> start;
  return {pid, start};
}

bool ProcessName::lives() const { return start != 0 && process_name(pid) == *this; }

Watcher::Watcher(const ProcessName& owner, const std::string& kind, const std::string& what) {
  std::vector<std::string> words{own_program(), "watcher", std::to_string(owner.pid), std::to_string(owner.start),
                                 kind,          what};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  for (const int output : {1, 2}) posix_spawn_file_actions_addopen(&actions, output, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);  // no Ctrl-C and no end of its group is for it
  const int error = posix_spawn(&pid_, words[0].c_str(), &actions, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return;
  pid_ = -1;
  throw Error("[watcher] {} cannot be started: {}", words[0], std::strerror(error));
}

Watcher::~Watcher() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

int watcher_main(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) return 2;
  const ProcessName owner{std::atoi(arguments[0].c_str()), std::strtoull(arguments[1].c_str(), nullptr, 10)};
  const std::string &kind = arguments[2], &what = arguments[3];
  if (chdir("/") != 0) return 1;
  wait_for_end(owner);
  if (kind == "cluster") {
    remove_cluster_of(owner, what);
  } else if (kind == "ranks" && fs::path(what).filename().string().starts_with(folder_start)) {
    end_ranks(what);
    std::error_code error;
    fs::remove_all(what, error);
    fs::remove_all(segments_of(what), error);
  }
  return 0;
}

RanksFolder::RanksFolder() : path_((fs::temp_directory_path() / fmt::format("{}XXXXXX", folder_start)).string()) {
  if (!mkdtemp(path_.data())) throw Error("[mpirun] {} cannot be made: {}", path_, std::strerror(errno));
  const std::string segments = segments_of(path_);
  if (segments == path_ || mkdir(segments.c_str(), 0700) == 0) segments_ = segments;
  try {
    watcher_ = std::make_unique<Watcher>(process_name(getpid()), "ranks", path_);
  } catch (...) {
    rmdir(path_.c_str());
    rmdir(segments_.c_str());
    throw;
  }
}

void RanksFolder::end_processes() const { end_ranks(path_); }

RanksFolder::~RanksFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
  if (!segments_.empty()) fs::remove_all(segments_, error);
}

}  // namespace d5
