// SPDX-License-Identifier: Apache-2.0
// Records on disk: DIR/records.jsonl, one JSON object a line, written as it happens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "d5/report/record.hpp"

namespace d5 {

// Creates the folder, appends to its records.jsonl. A line goes out in one write, so a killed process leaves whole
// lines; a line that does not fit on the disk is taken back. Only a power failure can lose lines that were not closed.
// Every failure is an Error that names the path. One thread at a time.
class RecordWriter {
 public:
  explicit RecordWriter(const std::string& folder);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  void write(const Record&);
  void close();  // to the disk itself; without it the destructor does so, but cannot say that it failed
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int file_ = -1;
};

struct RecordFile {
  std::vector<Record> records;        // of cases, in the order written
  std::vector<Record> environments;   // each hash once
  std::vector<std::string> problems;  // "DIR/records.jsonl:17: ..." for every line that was not used

  const Record* environment(std::string_view hash) const;  // or null
};

// A file, or a folder that holds records.jsonl. UsageError where it cannot be read; broken lines are only problems.
RecordFile read_records(const std::string& path);
RecordFile parse_records(std::string_view text, const std::string& path);

}  // namespace d5
