// SPDX-License-Identifier: Apache-2.0
// Where cached_roofline() keeps the roofline of a machine: $XDG_CACHE_HOME/d5 or ~/.cache/d5. A file that is broken or
// belongs to another machine is measured anew and replaced; where nothing can be written, nothing is kept.
// One measured while cores were shared is believed for ten minutes only: it may have been a passing disturbance.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "d5/measure/roofline.hpp"

namespace d5 {

std::filesystem::path cache_folder();   // empty where neither variable is set
std::string roofline_key(int threads);  // CPU model, threads, usable ISA
std::filesystem::path roofline_file(const std::string& key);

std::optional<Roofline> load_roofline(const std::filesystem::path&, const std::string& key);
bool store_roofline(const std::filesystem::path&, const std::string& key, const Roofline&,
                    bool cores_shared);  // written beside, then renamed

}  // namespace d5
