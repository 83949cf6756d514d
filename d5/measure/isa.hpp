// SPDX-License-Identifier: Apache-2.0
// Which instructions are really usable: the processor says so (CPUID), the operating system saves their registers
// (XGETBV), and what AMX claims is true. A virtual machine may advertise AMX with an empty tile table (leaf 0x1D);
// libraries that believe it die with SIGILL.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace d5 {

// The raw words, so that any machine can be judged, also one that is not here.
struct CpuidWords {
  uint32_t leaf1_ecx = 0, leaf7_ebx = 0, leaf7_ecx = 0, leaf7_edx = 0, leaf7_1_eax = 0;
  uint32_t leaf1d_eax = 0;  // leaf 0x1D, subleaf 0: the number of tile palettes
  uint64_t xcr0 = 0;        // registers that the operating system saves
  bool x86 = false;
};
CpuidWords read_cpuid();  // all zero and x86 = false on another architecture

struct Isa {
  bool x86 = false;
  bool sse4_1 = false, avx = false, f16c = false, avx2 = false, fma = false, avx_vnni = false;
  bool avx512f = false, avx512dq = false, avx512bw = false, avx512vl = false;
  bool avx512_vnni = false, avx512_bf16 = false, avx512_fp16 = false;
  bool amx_tile = false, amx_bf16 = false, amx_int8 = false;
  bool amx_lies = false;     // advertised, but without a tile palette
  bool avx_unsaved = false;  // the processor has AVX, the operating system does not save its registers
  bool avx512_unsaved = false;

  std::string best() const;                   // "avx512_core_bf16", "avx2", ..., "sse2"; "not x86" elsewhere
  std::vector<std::string> features() const;  // the usable ones, by their names in /proc/cpuinfo
  // Value for ONEDNN_MAX_CPU_ISA: what a library must be held to so that it lives; empty: no cap is needed.
  std::string onednn_cap() const;
  std::vector<std::string> traps() const;  // one sentence each; empty on an honest machine
};
Isa judge_isa(const CpuidWords&);
const Isa& usable_isa();  // of this machine, read once

}  // namespace d5
