// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/source.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "d5/backends/backend.hpp"
#include "d5/core/plugins.hpp"
#include "d5/core/version.hpp"
#include "d5/measure/clock.hpp"
#include "d5/measure/roofline_cache.hpp"

extern char** environ;

namespace d5 {
namespace {

namespace fs = std::filesystem;
constexpr size_t shown_lines = 40;

struct Answer {
  int status = 0;
  std::string output;  // stdout and stderr
};

Answer run_command(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("[source] no pipe: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Answer answer;
  std::array<char, 65536> block;
  for (ssize_t n; !failed && (n = read(ends[0], block.data(), block.size())) != 0;)
    if (n > 0)
      answer.output.append(block.data(), static_cast<size_t>(n));
    else if (errno != EINTR)
      break;
  close(ends[0]);
  if (failed)
    throw UsageError("[source] the compiler {} cannot be started: {}; D5_CXX names another one", words[0],
                     std::strerror(failed));
  while (waitpid(pid, &answer.status, 0) < 0 && errno == EINTR) {
  }
  return answer;
}

std::string first_lines(const std::string& text, size_t most) {
  std::istringstream lines(text);
  std::string result;
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    if (count < most) result += "\n  " + line;
  return count > most ? result + fmt::format("\n  ... and {} lines more", count - most) : result;
}

// How libd5 was compiled: lines "compiler|PATH", "flag|TEXT", "include|FOLDER" (relative ones from the file's own).
struct Recipe {
  std::string compiler;
  std::vector<std::string> flags;
};

Recipe read_recipe(const fs::path& folder) {
  const fs::path path = folder / "compile.txt";
  std::ifstream file(path);
  Recipe recipe;
  for (std::string line; std::getline(file, line);) {
    const size_t bar = line.find('|');
    const std::string key = line.substr(0, bar), value = bar == std::string::npos ? "" : line.substr(bar + 1);
    if (key == "compiler") recipe.compiler = value;
    if (key == "flag") recipe.flags.push_back(value);
    if (key == "include") recipe.flags.insert(recipe.flags.end(), {"-isystem", (folder / value).lexically_normal()});
  }
  if (recipe.compiler.empty()) throw Error("[source] {} does not say how to compile", path.string());
  if (const char* other = std::getenv("D5_CXX"); other && *other) recipe.compiler = other;
  if (const char* more = std::getenv("D5_CXXFLAGS")) {
    std::istringstream words(more);
    for (std::string word; words >> word;) recipe.flags.push_back(word);
  }
  return recipe;
}

// A source that includes a header of a backend calls into its module.
std::vector<std::string> link_flags(const fs::path& folder, const std::string& preprocessed) {
  std::vector<std::string> flags{"-L" + folder.parent_path().string(), "-ld5",
                                 "-Wl,-rpath," + folder.parent_path().string()};
  for (const BackendStatus& status : backend_statuses())
    if (!status.module.empty() && preprocessed.find("d5/backends/" + status.name + "/") != std::string::npos)
      flags.push_back(status.module);
  return flags;
}

fs::path own_folder() {
  const fs::path cache = cache_folder();
  if (cache.empty()) throw UsageError("[source] there is no folder for what is compiled; set XDG_CACHE_HOME or HOME");
  const fs::path folder = cache / "sources";
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!failed) fs::permissions(folder, fs::perms::owner_all, failed);  // what lies there is run
  if (failed) throw UsageError("[source] {} cannot be used: {}", folder.string(), failed.message());
  return folder;
}

// What any tool takes in a path: others have a meaning in D5_PLUGINS or for the compiler.
std::string plain_stem(const std::string& path) {
  std::string stem = fs::path(path).stem().string();
  for (char& c : stem)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') c = '-';
  return stem;
}

[[noreturn]] void fail_to_compile(const std::string& path, const Answer& answer) {
  throw UsageError("[source] {} does not compile:{}", path, first_lines(answer.output, shown_lines));
}

}  // namespace

CompiledSource compile_source(const std::string& path) {
  file_contents(path);  // a file that cannot be read is named by us, not by the compiler
  const double begin = now_seconds();
  const fs::path folder = library_folder() / "d5";
  const Recipe recipe = read_recipe(folder);
  std::vector<std::string> command{recipe.compiler};
  command.insert(command.end(), recipe.flags.begin(), recipe.flags.end());
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };

  const fs::path cache = own_folder();
  const std::string stem = plain_stem(path);
  const fs::path part = cache / fmt::format("{}.{}.part", stem, getpid());
  // C++ whatever the file's name ends with.
  const std::vector<std::string> source{"-x", "c++", path, "-x", "none"};
  const Answer preprocessed = run_command(with(with(command, {"-E", "-o", part.string()}), source));
  if (preprocessed.status != 0) {
    fs::remove(part);
    fail_to_compile(path, preprocessed);
  }
  const std::string text = file_contents(part.string());
  const std::vector<std::string> linking = link_flags(folder, text);
  std::string key = text + "\n" + version() + "\n" + run_command({recipe.compiler, "--version"}).output + "\n" +
                    roofline_key(1) + "\n";  // the processor, which -march=native looks at
  for (const std::string& word : with(command, linking)) key += word + "\n";
  const fs::path library = cache / fmt::format("{}-{}.so", stem, content_hash(key));
  if (fs::exists(library)) {
    fs::remove(part);
    return {library.string()};
  }
  const Answer compiled = run_command(with(with(with(command, {"-shared", "-o", part.string()}), source), linking));
  if (compiled.status != 0) {
    fs::remove(part);
    fail_to_compile(path, compiled);
  }
  fs::rename(part, library);  // whole or not there at all, whoever else compiles it
  return {library.string(), now_seconds() - begin};
}

}  // namespace d5
