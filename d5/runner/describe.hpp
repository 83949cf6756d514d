// SPDX-License-Identifier: Apache-2.0
// What a backend says of itself, asked in a child: the parent opens no backend.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace d5 {

// {"facts": {...}, "disk_footprint": {...}}, or {"error": "..."} where it does not open or kills its process.
nlohmann::json describe_backend(const std::string& name, int threads);

}  // namespace d5
