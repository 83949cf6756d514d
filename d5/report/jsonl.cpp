// SPDX-License-Identifier: Apache-2.0
#include "d5/report/jsonl.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

// All of it, or the errno of what went wrong.
int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return ENOSPC;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return 0;
}

// A run that was cut off may have left half a line; the next record must not be glued to it.
bool ends_inside_a_line(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in.seekg(-1, std::ios::end)) return false;
  return in.get() != '\n';
}

bool is_regular(int file, off_t& size) {
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  size = status.st_size;
  return true;
}

}  // namespace

RecordWriter::RecordWriter(const std::string& folder) {
  namespace fs = std::filesystem;
  path_ = (fs::path(folder) / "records.jsonl").string();
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) {
    throw UsageError("[records] {}: cannot create the folder: {}", folder, failure.message());
  }
  const bool broken = fs::is_regular_file(path_, failure) && ends_inside_a_line(path_);
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) throw UsageError("[records] {}: cannot write: {}", path_, std::strerror(errno));
  if (broken) {
    if (const int code = write_all(file_, "\n")) {
      ::close(file_);
      throw Error("[records] {}: cannot write: {}", path_, std::strerror(code));
    }
  }
}

RecordWriter::~RecordWriter() {
  if (file_ < 0) return;
  ::fdatasync(file_);
  ::close(file_);
}

void RecordWriter::write(const Record& record) {
  if (file_ < 0) throw Error("[records] {}: already closed", path_);
  const std::string line = to_line(record) + "\n";
  off_t before = 0;
  const bool regular = is_regular(file_, before);
  const int code = write_all(file_, line);
  if (code == 0) return;
  const bool taken_back = regular && ::ftruncate(file_, before) == 0;
  throw Error("[records] {}: cannot write: {}; the records before this one are {}", path_, std::strerror(code),
              taken_back || !regular ? "whole" : "whole, followed by a part of this one");
}

void RecordWriter::close() {
  if (file_ < 0) return;
  const int file = std::exchange(file_, -1);
  // Pipes and devices cannot be synchronised; that is no loss.
  int code = ::fdatasync(file) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
  if (::close(file) != 0 && code == 0) code = errno;
  if (code != 0) throw Error("[records] {}: cannot write: {}", path_, std::strerror(code));
}

const Record* RecordFile::environment(std::string_view hash) const {
  for (const Record& e : environments) {
    if (e.environment == hash) return &e;
  }
  return nullptr;
}

RecordFile parse_records(std::string_view text, const std::string& path) {
  RecordFile result;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const bool whole = end != std::string_view::npos;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(whole ? end + 1 : text.size());
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    try {
      Record record = record_from_line(line);
      if (record.kind != "environment") {
        result.records.push_back(std::move(record));
      } else if (!result.environment(record.environment)) {
        result.environments.push_back(std::move(record));
      }
    } catch (const Error& e) {
      result.problems.push_back(
          fmt::format("{}:{}: {}{}", path, number, whole ? "" : "the last line is cut off: ", e.what()));
    }
  }
  return result;
}

RecordFile read_records(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string file = fs::is_directory(path, ignored) ? (fs::path(path) / "records.jsonl").string() : path;
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw UsageError("[records] {}: cannot read: {}", file, std::strerror(errno));
  return parse_records(text.str(), file);
}

}  // namespace d5
