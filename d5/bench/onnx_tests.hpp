// SPDX-License-Identifier: Apache-2.0
// Suites of ONNX tests: folders with one .onnx file and test_data_set_* folders, in which input_I.pb and output_I.pb
// lie. Each is a case of the kind "onnx-test": the network is read, put into d5's words, compiled by the backend, run
// on the stored inputs and compared with the stored outputs (bench/compare_values.hpp; data.json beside the network may
// give other tolerances). What a backend cannot run is `unsupported` with its reason.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "d5/report/record.hpp"

namespace d5 {

// The folder itself or those below it, at any depth, sorted by name. UsageError where there is none.
std::vector<std::filesystem::path> find_onnx_tests(const std::filesystem::path& folder);

// Cases in the order test, backend.
std::vector<nlohmann::json> onnx_test_cases(const std::filesystem::path& folder,
                                            const std::vector<std::string>& backends);

// Per backend: how many passed, failed, ...; then the reasons, counted.
std::string onnx_tests_table(const std::vector<Record>&);

}  // namespace d5
