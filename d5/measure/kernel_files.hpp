// SPDX-License-Identifier: Apache-2.0
// Small text files in which the kernel publishes facts (/proc, /sys). A file that is not there reads as empty.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace d5 {

std::string read_whole(const std::filesystem::path&);
std::string first_line(const std::filesystem::path&);                      // without spaces at its ends
std::string field(const std::filesystem::path&, const std::string& name);  // "name : value" of the first such line
int64_t parse_size(const std::string& text);                               // "32K", "1024K", "32M", "123 kB"; 0 else
int count_cpus(const std::string& list);                                   // "0-3,8" is 5

}  // namespace d5
