// SPDX-License-Identifier: Apache-2.0
// Suites as a user writes them: any text ends in rows or in a UsageError.
#include <cstddef>
#include <cstdint>
#include <string>

#include "d5/core/error.hpp"
#include "d5/recipe/suite.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const d5::Suite suite = d5::parse_suite(std::string(reinterpret_cast<const char*>(data), size), "fuzz.csv");
    for (const d5::SuiteRow& row : suite.rows)
      for (const auto& [field, value] : row.fields.items()) row.columns.at(field);
  } catch (const d5::UsageError&) {  // a reason in words is a right answer
  }
  return 0;
}
