// SPDX-License-Identifier: Apache-2.0
#include "d5/datasets/fetch.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "d5/datasets/checksum.hpp"
#include "d5/datasets/unpack.hpp"

extern char** environ;

namespace d5 {
namespace {

namespace fs = std::filesystem;

// Its exit status; 127 where there is no such program.
int run(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) return 127;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool has_sum(const std::string& path, const std::string& checksum) {
  return checksum.empty() || file_checksum(path, checksum.substr(0, checksum.find(':'))) == checksum;
}

// A file that must be put there, because it is missing or what is there is damaged.
struct Wanted {
  PublishedFile file;
  bool damaged = false;
};

std::string to_do_by_hand(const std::string& folder, const std::vector<Wanted>& wanted) {
  std::string text;
  for (const auto& [file, damaged] : wanted) {
    text += fmt::format("\n  {}/{}", folder, file.path);
    if (!file.url.empty()) text += " from " + file.url;
    if (!file.checksum.empty()) text += fmt::format(" ({})", file.checksum);
    if (damaged) text += ", in place of the damaged one";
    if (!file.how.empty()) text += "\n    " + file.how;
  }
  return text;
}

// `missing` begins with it; they are named where nothing can be fetched.
void fetch_first(const std::string& name, const std::string& folder, const std::vector<Wanted>& missing) {
  const PublishedFile& file = missing.front().file;
  if (!file.url.starts_with("https://")) throw Error("[{}] {} is fetched by HTTPS only", name, file.url);
  const std::string path = folder + "/" + file.path, part = path + ".part";
  fs::create_directories(fs::path(path).parent_path());
  const bool complete = !file.checksum.empty() && fs::exists(part) && has_sum(part, file.checksum);
  if (!complete) {
    const int status = run({"curl", "--fail", "--location", "--silent", "--show-error", "--proto", "=https", "--retry",
                            "3", "--connect-timeout", "20", "--continue-at", "-", "--output", part, file.url});
    if (status != 0)
      throw Error("[{}] {} could not be fetched ({}). Put these files there yourself:{}", name, file.url,
                  status == 127 ? "the program curl is not here" : fmt::format("curl ended with {}", status),
                  to_do_by_hand(folder, missing));
  }
  if (!has_sum(part, file.checksum)) {
    const std::string found = file_checksum(part, file.checksum.substr(0, file.checksum.find(':')));
    fs::remove(part);
    throw Error("[{}] {} came as {}, should be {} ({}); it was removed", name, file.url, found, file.checksum,
                file.source);
  }
  fs::rename(part, path);
}

FileVerdict judged(const std::string& path, const std::string& checksum, const std::string& source) {
  const std::string kind = checksum.empty() ? "md5" : checksum.substr(0, checksum.find(':'));
  const std::string found = file_checksum(path, kind);
  if (checksum.empty()) return {path, true, fmt::format("{}; none is known to compare it with", found)};
  if (found == checksum) return {path, true, fmt::format("{} as it should be ({})", found, source)};
  return {path, false, fmt::format("{}, should be {} ({})", found, checksum, source)};
}

// The file itself, packed anew perhaps: then what is in it counts.
FileVerdict judged_packed(const std::string& path, const PublishedFile& file) {
  const FileVerdict verdict = judged(path, file.checksum, file.source);
  if (verdict.good || file.contents.empty()) return verdict;
  try {
    const std::string found = contents_checksum(path, file.contents.substr(0, file.contents.find(':')));
    if (found == file.contents)
      return {path, true, fmt::format("repacked: it holds {}, as the published file does", found)};
  } catch (const Error&) {  // what is packed is broken, too
  }
  return verdict;
}

// Of one published file that is there, under its own name or another.
std::vector<FileVerdict> judged_file(const std::string& folder, const PublishedFile& file, std::string path) {
  if (path == folder + "/" + file.path && !fs::is_directory(path)) return {judged_packed(path, file)};
  std::vector<FileVerdict> verdicts;
  if (!file.members.empty()) {
    std::vector<std::string> wanted;
    for (const auto& member : file.members) wanted.push_back(member.first);
    if (!fs::is_directory(path)) path = unpacked_folder(path, wanted, uint64_t{1} << 30);
    for (const auto& member : file.members) {
      const std::string one = path + "/" + member.first;
      verdicts.push_back(fs::exists(one) ? judged(one, member.second, file.members_source)
                                         : FileVerdict{one, false, "is not there"});
    }
  } else if (!file.contents.empty()) {
    verdicts.push_back(judged(path, file.contents, "what the published file unpacks to"));
  } else {
    verdicts.push_back({path, true, "stands for " + file.path + "; no checksum is known of it"});
  }
  return verdicts;
}

// What is wrong with it; empty where it is as it should be.
std::string damage_of(const std::string& folder, const PublishedFile& file, const std::string& path) {
  try {
    for (const FileVerdict& verdict : judged_file(folder, file, path))
      if (!verdict.good) return fmt::format("{}: {}", verdict.path, verdict.note);
  } catch (const Error& error) {  // an archive that cannot be unpacked
    return error.what();
  }
  return {};
}

}  // namespace

void fetch_dataset(const std::string& name, const std::string& folder,
                   const std::function<void(const std::string&)>& say) {
  const DatasetEntry& entry = registered<datasets>(name);
  std::vector<Wanted> by_hand, missing;
  for (const PublishedFile& file : entry.files) {
    const std::string path = path_of(folder, file);
    const std::string damage = path.empty() ? "" : damage_of(folder, file, path);
    if (!path.empty() && damage.empty()) {
      say(fmt::format("{} is there", path));
      continue;
    }
    if (!damage.empty()) say(fmt::format("damaged: {}", damage));
    (file.url.empty() ? by_hand : missing).push_back({file, !damage.empty()});
  }
  for (; !missing.empty(); missing.erase(missing.begin())) {
    say(fmt::format("fetching {}", missing.front().file.url));
    fetch_first(name, folder, missing);
  }
  if (!by_hand.empty())
    throw Error("[{}] cannot be fetched without you. Put there:{}", name, to_do_by_hand(folder, by_hand));
}

std::vector<FileVerdict> verify_files(const std::string& name, const std::string& folder, const Attributes& options) {
  const DatasetEntry& entry = registered<datasets>(name);
  const std::vector<PublishedFile> needed = files_of_part(entry, options);
  std::vector<FileVerdict> verdicts;
  for (const PublishedFile& file : entry.files) {
    if (const std::string path = path_of(folder, file); !path.empty()) {
      for (FileVerdict& verdict : judged_file(folder, file, path)) verdicts.push_back(std::move(verdict));
    } else if (std::ranges::count(needed, file.path, &PublishedFile::path)) {
      verdicts.push_back({folder + "/" + file.path, false, how_to_get(folder, file, name)});
    }
  }
  return verdicts;
}

}  // namespace d5
