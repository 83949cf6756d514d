// SPDX-License-Identifier: Apache-2.0
// What a backend costs on disk.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace d5 {

// {"path", "bytes", "libraries": [{"path", "bytes"}], "total_bytes"}. A folder: all files in it. A module that is
// loaded: also the libraries that it needs, directly or not, and that the program itself does not. A module that is not
// loaded: the file alone. Error where the path does not exist.
nlohmann::json disk_footprint(const std::filesystem::path&);

}  // namespace d5
