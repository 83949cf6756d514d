// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/resident_memory.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace d5 {
namespace {

constexpr size_t mebibyte = 1 << 20;

void touch(size_t bytes) {
  const std::unique_ptr<volatile char[]> memory(new volatile char[bytes]);
  for (size_t i = 0; i < bytes; i += 1024) memory[i] = 1;
}

TEST(ResidentPeak, SeesWhatWasTouchedAndFreedAgain) {
  touch(96 * mebibyte);  // earlier work is forgotten
  const ResidentPeak peak;
  if (!peak.why_not().empty()) GTEST_SKIP() << peak.why_not();
  const double before = static_cast<double>(*peak.growth_bytes());
  EXPECT_LT(before, 8 * mebibyte);
  touch(64 * mebibyte);
  const double after = static_cast<double>(*peak.growth_bytes());
  EXPECT_GE(after, 63.5 * mebibyte);
  EXPECT_LE(after, 90 * mebibyte);
}

TEST(ResidentPeak, MemoryThatIsNotTouchedIsNotThere) {
  const ResidentPeak peak;
  if (!peak.why_not().empty()) GTEST_SKIP() << peak.why_not();
  const std::unique_ptr<char[]> memory(new char[256 * mebibyte]);
  // AddressSanitizer notes each eighth byte elsewhere: 32 MiB.
  EXPECT_LT(*peak.growth_bytes(), static_cast<int64_t>(64 * mebibyte));
}

}  // namespace
}  // namespace d5
