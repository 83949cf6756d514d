// SPDX-License-Identifier: Apache-2.0
// A trace as Chrome's about:tracing and Perfetto (ui.perfetto.dev) open it: the JSON object form of the trace-event
// format,
// {"traceEvents": [...]}. Times are in microseconds from the beginning of a step, kept to the nanosecond.
// The file is whole after every call: what is added overwrites the closing brackets and writes them anew, in one go. So
// whoever interrupts a run finds valid JSON with all that was added before.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace d5 {

struct TraceSpan {
  std::string name = {}, category = {};
  double begin_s = 0, end_s = 0;
  int thread = 1;
  nlohmann::json arguments = nlohmann::json::object();
};

// Events of one process: its name, those of its threads (else "step" for the first, "thread N"), and the spans ("X")
// with their times from `origin_s` on. A span of no length whose category is "instant" is an instant ("i").
std::vector<nlohmann::json> trace_events(const std::vector<TraceSpan>&, double origin_s, int process,
                                         const std::string& process_name,
                                         const std::map<int, std::string>& thread_names = {});

class TraceFile {
 public:
  explicit TraceFile(std::string path);  // Error where it cannot be written; what was there is replaced
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void add(const std::vector<nlohmann::json>& events);

 private:
  void write(const std::string& text);  // at the end, which does not move

  std::string path_;
  int file_ = -1;
  size_t end_ = 0;  // where the closing brackets begin
};

// The events of a file as TraceFile writes it, as another process. Error where it is none.
std::vector<nlohmann::json> read_trace_events(const std::string& path, int process, const std::string& process_name);

}  // namespace d5
