// SPDX-License-Identifier: Apache-2.0
// The table for people. A block holds the cases of one operator, dtype, pass, thread count and machine; these stand in
// its heading, with all other fields that do not vary in it. The backend and what varies are columns.
//
// The heading's machine part comes from the environment record: details.cpu.model, details.cpu.isa.best, and of
// details.rooflines (each as to_json of a Roofline) the one of the block's thread count. What is missing is left out.
#pragma once

#include <span>
#include <string>

#include "d5/report/record.hpp"
#include "d5/report/verdicts.hpp"

namespace d5 {

struct ConsoleOptions {
  bool colour = false;  // the caller knows whether this is a terminal
  VerdictOptions verdicts;
};

std::string console_text(std::span<const Record> records, std::span<const Record> environments,
                         const ConsoleOptions& options = {});

// "Intel Xeon, avx512_core_bf16; peak 165 GFLOP/s, copy 11.0 GB/s measured"
std::string machine_text(const Record& environment, const std::string& dtype, int threads);

}  // namespace d5
