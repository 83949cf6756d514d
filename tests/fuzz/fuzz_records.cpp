// SPDX-License-Identifier: Apache-2.0
// Records files, broken in any way: what is read must survive being written again, and every view must bear it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "d5/core/error.hpp"
#include "d5/report/compare.hpp"
#include "d5/report/console.hpp"
#include "d5/report/csv.hpp"
#include "d5/report/jsonl.hpp"
#include "d5/report/reproduce.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const d5::RecordFile file = d5::parse_records({reinterpret_cast<const char*>(data), size}, "fuzz.jsonl");
  for (const d5::Record& r : file.records) {
    const std::string line = d5::to_line(r);
    if (d5::to_line(d5::record_from_line(line)) != line) std::abort();
  }
  try {
    d5::console_text(file.records, file.environments, {.colour = true, .verdicts = {}});
    d5::csv_text(file.records);
    const d5::CompareOptions options{.ignore = {"backend"}, .verdicts = {}};
    d5::compare_text(d5::compare_records(file.records, file.records, options), options, false);
    d5::to_text(d5::reproduce_records(file, file.records));
  } catch (const d5::UsageError&) {  // two records of one case that differ in an ignored field
  }
  return 0;
}
