// SPDX-License-Identifier: Apache-2.0
// Approved output: tests/golden/NAME. A change that is meant is approved with D5_APPROVE=1, and seen in review.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace d5 {

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::string line_difference(const std::string& approved, const std::string& made) {
  std::istringstream a(approved), m(made);
  std::string result, line_a, line_m;
  for (int number = 1;; ++number) {
    const bool more_a = static_cast<bool>(std::getline(a, line_a)), more_m = static_cast<bool>(std::getline(m, line_m));
    if (!more_a && !more_m) return result;
    if (more_a && more_m && line_a == line_m) continue;
    if (more_a) result += "-" + std::to_string(number) + " " + line_a + "\n";
    if (more_m) result += "+" + std::to_string(number) + " " + line_m + "\n";
  }
}

inline void expect_golden(const std::string& name, const std::string& made) {
  const auto path = std::filesystem::path(D5_SOURCE_DIR "/tests/golden") / name;
  if (std::getenv("D5_APPROVE")) {
    std::ofstream(path, std::ios::binary) << made;
    return;
  }
  const std::string approved = file_text(path);
  EXPECT_TRUE(approved == made) << "tests/golden/" << name << " differs (- approved, + made now):\n"
                                << line_difference(approved, made)
                                << "If the new one is right: D5_APPROVE=1 build/bin/unit_report";
}

// A folder of its own, gone at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "d5-report-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::string text() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace d5
