// SPDX-License-Identifier: Apache-2.0
#include "d5/report/trace.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

using nlohmann::json;

constexpr const char* opening = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
constexpr const char* closing = "\n]}\n";

// Rounding keeps the order of times, so spans that were nested stay nested.
int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }
double microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

json metadata(const char* what, int process, int thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"ts", 0}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

std::vector<json> trace_events(const std::vector<TraceSpan>& spans, double origin_s, int process,
                               const std::string& process_name, const std::map<int, std::string>& thread_names) {
  std::vector<json> events{metadata("process_name", process, 1, process_name)};
  std::set<int> threads;
  for (const TraceSpan& span : spans) threads.insert(span.thread);
  for (const int thread : threads) {
    const auto known = thread_names.find(thread);
    const std::string usual = thread == 1 ? "step" : fmt::format("thread {}", thread);
    events.push_back(metadata("thread_name", process, thread, known == thread_names.end() ? usual : known->second));
  }
  for (const TraceSpan& span : spans) {
    const int64_t begin = nanoseconds(span.begin_s - origin_s), end = nanoseconds(span.end_s - origin_s);
    json event = {{"name", span.name}, {"cat", span.category}, {"ts", microseconds(begin)},
                  {"pid", process},    {"tid", span.thread},   {"args", span.arguments}};
    if (span.category == "instant") {
      event["ph"] = "i";
      event["s"] = "t";
    } else {
      event["ph"] = "X";
      event["dur"] = microseconds(end - begin);
    }
    events.push_back(std::move(event));
  }
  return events;
}

TraceFile::TraceFile(std::string path) : path_(std::move(path)) {
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) throw Error("[trace] {} cannot be written: {}", path_, std::strerror(errno));
  write(std::string(opening) + closing);
  end_ = std::strlen(opening);
}

TraceFile::~TraceFile() { ::close(file_); }

void TraceFile::write(const std::string& text) {
  const ssize_t written = ::pwrite(file_, text.data(), text.size(), static_cast<off_t>(end_));
  if (written != static_cast<ssize_t>(text.size()))
    throw Error("[trace] {} cannot be written: {}", path_, written < 0 ? std::strerror(errno) : "the disk is full");
}

void TraceFile::add(const std::vector<json>& events) {
  if (events.empty()) return;
  std::string text;
  for (const json& event : events)
    text += (end_ + text.size() > std::strlen(opening) ? ",\n" : "\n") +
            event.dump(-1, ' ', false, json::error_handler_t::replace);
  write(text + closing);
  end_ += text.size();
}

std::vector<json> read_trace_events(const std::string& path, int process, const std::string& process_name) try {
  std::ifstream file(path);
  json events = json::parse(file).at("traceEvents");
  for (json& event : events) {
    event.at("pid") = process;
    if (event.at("ph") == "M" && event.at("name") == "process_name") event["args"]["name"] = process_name;
  }
  return {events.begin(), events.end()};
} catch (const json::exception& error) {
  throw Error("[trace] {} is no trace: {}", path, error.what());
}

}  // namespace d5
