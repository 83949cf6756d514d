// SPDX-License-Identifier: Apache-2.0
#include "d5/core/plugins.hpp"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "d5/core/origin.hpp"

namespace d5 {
namespace {

constexpr const char* variable = "D5_PLUGINS";
constexpr unsigned opening_seconds = 20;

std::vector<Plugin>& all_plugins() {
  static std::vector<Plugin> all;
  return all;
}

// A constructor may crash or never end; it must not take the program with it.
void try_to_open(const std::string& library, const std::string& given) {
  constexpr int ended = 40;  // dlopen returned, with or without success
  const pid_t pid = fork();
  if (pid < 0) throw Error("[plugin] cannot fork: {}", std::strerror(errno));
  if (pid == 0) {
    signal(SIGALRM, SIG_DFL);
    alarm(opening_seconds);
    dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    _exit(ended);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == ended) return;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    throw UsageError("[plugin] {}: opening it does not end within {} s", given, opening_seconds);
  if (WIFSIGNALED(status))
    throw UsageError("[plugin] {} crashes while it is opened: SIG{} ({})", given, sigabbrev_np(WTERMSIG(status)),
                     sigdescr_np(WTERMSIG(status)));
  throw UsageError("[plugin] {} ends the process that opens it (status {})", given, WEXITSTATUS(status));
}

}  // namespace

std::filesystem::path library_folder() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(&library_folder), &info) || !info.dli_fname)
    throw Error("[plugin] libd5 cannot find its own file; set D5_BACKEND_PATH to the folder of the modules");
  return std::filesystem::absolute(info.dli_fname).parent_path();
}

size_t open_plugin(Plugin plugin) {
  std::error_code unknown;
  const auto whole = std::filesystem::canonical(plugin.library, unknown);
  if (unknown) throw UsageError("[plugin] {} cannot be read: {}", plugin.given, unknown.message());
  plugin.library = whole.string();
  if (plugin.library.find(':') != std::string::npos)
    throw UsageError("[plugin] {}: a ':' separates plugins in {}, so none may stand in a path", plugin.library,
                     variable);
  auto& all = all_plugins();
  if (std::ranges::any_of(all, [&](const Plugin& other) { return other.library == plugin.library; })) return 0;
  try_to_open(plugin.library, plugin.given);
  size_t registered = 0;
  try {
    registered = load_plugin(plugin.library);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  all.push_back(std::move(plugin));
  return registered;
}

void tell_children() {
  std::string list;
  for (const Plugin& one : all_plugins()) list += (list.empty() ? "" : ":") + one.library;
  setenv(variable, list.c_str(), 1);
}

const std::vector<Plugin>& opened_plugins() { return all_plugins(); }

std::vector<Takeover> takeovers() {
  const auto given = [](const std::string& library) {
    const auto found = std::ranges::find(all_plugins(), library, &Plugin::library);
    return found == all_plugins().end() ? std::string() : found->given;
  };
  std::vector<Takeover> all;
  for (const Replacement& one : replacements()) {
    const std::string by = given(one.after), before = given(one.before);
    if (!by.empty())
      all.push_back(
          {one.kind, one.name,
           fmt::format("{} replaces the {} '{}' of {}", by, one.kind, one.name, before.empty() ? "deep500" : before)});
  }
  return all;
}

std::vector<std::string> plugins_of_environment() {
  std::vector<std::string> list;
  const char* text = std::getenv(variable);
  std::istringstream parts(text ? text : "");
  for (std::string part; std::getline(parts, part, ':');)
    if (!part.empty()) list.push_back(part);
  return list;
}

std::string content_hash(std::string_view contents) {
  __extension__ using Wide = unsigned __int128;
  const Wide prime = (Wide{1} << 88) | 0x13b;
  Wide hash = (Wide{0x6c62272e07bb0142} << 64) | 0x62b821756295c58d;
  for (const char c : contents) hash = (hash ^ static_cast<unsigned char>(c)) * prime;
  return fmt::format("{:016x}{:016x}", static_cast<uint64_t>(hash >> 64), static_cast<uint64_t>(hash));
}

std::string file_contents(const std::string& path) {
  std::error_code unknown;
  std::ifstream file(path, std::ios::binary);
  if (!file || !std::filesystem::is_regular_file(path, unknown)) throw UsageError("[plugin] {} cannot be read", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace d5
