// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/isa.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "d5/measure/kernel_files.hpp"

namespace d5 {
namespace {

// Bit positions from Intel's Software Developer's Manual, volume 2, CPUID.
constexpr uint32_t bit(int position) { return 1u << position; }

CpuidWords server() {
  CpuidWords w;
  w.x86 = true;
  w.leaf1_ecx = bit(12) | bit(19) | bit(27) | bit(28) | bit(29);
  w.leaf7_ebx = bit(5) | bit(16) | bit(17) | bit(30) | bit(31);
  w.leaf7_ecx = bit(11);
  w.leaf7_edx = bit(22) | bit(24) | bit(25);
  w.leaf7_1_eax = bit(4) | bit(5);
  w.leaf1d_eax = 1;
  w.xcr0 = 0x600E7;
  return w;
}

TEST(Isa, AgreesWithTheFlagsThatTheKernelLists) {
  const std::string flags = field("/proc/cpuinfo", "flags");
  if (!usable_isa().x86 || flags.empty()) GTEST_SKIP() << "not x86, or no /proc/cpuinfo";
  std::istringstream words(flags);
  const std::set<std::string> listed{std::istream_iterator<std::string>(words), {}};
  const Isa& isa = usable_isa();
  const auto features = isa.features();
  for (const std::string& name : features) EXPECT_TRUE(listed.contains(name)) << name;
  for (const char* name : {"sse4_1", "avx", "f16c", "avx2", "fma", "avx512f", "avx512dq", "avx512bw", "avx512vl",
                           "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni"}) {
    if (!listed.contains(name)) continue;
    EXPECT_THAT(features, testing::Contains(name));
  }
}

TEST(Isa, AnHonestServerUsesEverything) {
  const Isa isa = judge_isa(server());
  EXPECT_TRUE(isa.avx512_bf16 && isa.amx_tile && isa.amx_bf16 && isa.amx_int8);
  EXPECT_EQ(isa.best(), "avx512_core_amx");
  EXPECT_EQ(isa.onednn_cap(), "");
  EXPECT_TRUE(isa.traps().empty());
}

TEST(Isa, AmxWithoutPalettesIsATrap) {
  CpuidWords w = server();
  w.leaf1d_eax = 0;
  const Isa isa = judge_isa(w);
  EXPECT_FALSE(isa.amx_tile || isa.amx_bf16 || isa.amx_int8);
  EXPECT_EQ(isa.best(), "avx512_core_bf16");
  EXPECT_EQ(isa.onednn_cap(), "AVX512_CORE_BF16");
  ASSERT_EQ(isa.traps().size(), 1u);
  EXPECT_THAT(isa.traps()[0], testing::HasSubstr("0x1D"));
}

TEST(Isa, TilesThatAreNotSavedAreNotUsableButNoTrap) {
  CpuidWords w = server();
  w.xcr0 = 0xE7;
  EXPECT_FALSE(judge_isa(w).amx_tile);
  EXPECT_EQ(judge_isa(w).onednn_cap(), "");
}

TEST(Isa, RegistersThatAreNotSavedCannotBeUsed) {
  CpuidWords w = server();
  w.xcr0 = 0x7;  // AVX, but not AVX-512
  const Isa isa = judge_isa(w);
  EXPECT_TRUE(isa.avx2 && isa.fma);
  EXPECT_FALSE(isa.avx512f || isa.avx512_vnni || isa.avx512_bf16);
  EXPECT_EQ(isa.best(), "avx2_vnni");
  EXPECT_EQ(isa.traps().size(), 1u);
  w.xcr0 = 0x3;
  EXPECT_FALSE(judge_isa(w).avx || judge_isa(w).fma || judge_isa(w).avx2);
  EXPECT_EQ(judge_isa(w).best(), "sse4_1");
}

TEST(Isa, AnotherArchitectureSaysSo) {
  const Isa isa = judge_isa(CpuidWords{});
  EXPECT_EQ(isa.best(), "not x86");
  EXPECT_TRUE(isa.features().empty());
  EXPECT_EQ(isa.traps().size(), 1u);
}

}  // namespace
}  // namespace d5
