// SPDX-License-Identifier: Apache-2.0
// The fields of cases as text, for every view of records. "kind" stands beside the case and is not one of its fields.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "d5/report/record.hpp"

namespace d5 {

// Every field of any of these records, in one order for all views: what is computed (operator, m, n, k), the rest by
// name, how it is computed (dtype, pass, threads, backend).
std::vector<std::string> field_names(std::span<const Record> records);

// Text without quotes; absent: empty. Control characters become spaces, so that no file can steer a terminal.
std::string field_text(const nlohmann::json& fields, const std::string& name);
std::string one_line(std::string text);

// "op Gemm m=512 n=128 k=512 dtype=f32 backend=onednn"
std::string case_name(const Record& record);

}  // namespace d5
