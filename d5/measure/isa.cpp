// SPDX-License-Identifier: Apache-2.0
#include "d5/measure/isa.hpp"

#include <utility>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace d5 {
namespace {

constexpr bool bit(uint64_t word, int position) { return (word >> position) & 1; }

}  // namespace

CpuidWords read_cpuid() {
  CpuidWords words;
#if defined(__x86_64__) || defined(__i386__)
  words.x86 = true;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) words.leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    words.leaf7_ebx = b;
    words.leaf7_ecx = c;
    words.leaf7_edx = d;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) words.leaf7_1_eax = a;
  }
  if (__get_cpuid_count(0x1D, 0, &a, &b, &c, &d)) words.leaf1d_eax = a;
  if (bit(words.leaf1_ecx, 27)) {  // XGETBV may be used
    uint32_t low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    words.xcr0 = (static_cast<uint64_t>(high) << 32) | low;
  }
#endif
  return words;
}

Isa judge_isa(const CpuidWords& w) {
  Isa isa;
  isa.x86 = w.x86;
  if (!w.x86) return isa;
  const bool saves_avx = (w.xcr0 & 0x6) == 0x6;                    // SSE and AVX
  const bool saves_avx512 = saves_avx && (w.xcr0 & 0xE0) == 0xE0;  // masks and the upper registers
  const bool saves_amx = (w.xcr0 & 0x60000) == 0x60000;            // tile configuration and tiles
  isa.sse4_1 = bit(w.leaf1_ecx, 19);
  isa.avx = saves_avx && bit(w.leaf1_ecx, 28);
  isa.avx_unsaved = bit(w.leaf1_ecx, 28) && !saves_avx;
  isa.fma = isa.avx && bit(w.leaf1_ecx, 12);
  isa.f16c = isa.avx && bit(w.leaf1_ecx, 29);
  isa.avx2 = isa.avx && bit(w.leaf7_ebx, 5);
  isa.avx_vnni = isa.avx2 && bit(w.leaf7_1_eax, 4);

  isa.avx512f = saves_avx512 && bit(w.leaf7_ebx, 16);
  isa.avx512_unsaved = bit(w.leaf7_ebx, 16) && !saves_avx512;
  isa.avx512dq = isa.avx512f && bit(w.leaf7_ebx, 17);
  isa.avx512bw = isa.avx512f && bit(w.leaf7_ebx, 30);
  isa.avx512vl = isa.avx512f && bit(w.leaf7_ebx, 31);
  isa.avx512_vnni = isa.avx512f && bit(w.leaf7_ecx, 11);
  isa.avx512_bf16 = isa.avx512f && bit(w.leaf7_1_eax, 5);
  isa.avx512_fp16 = isa.avx512f && bit(w.leaf7_edx, 23);

  const bool claims_amx = bit(w.leaf7_edx, 22) || bit(w.leaf7_edx, 24) || bit(w.leaf7_edx, 25);
  isa.amx_lies = claims_amx && w.leaf1d_eax == 0;
  isa.amx_tile = saves_amx && !isa.amx_lies && bit(w.leaf7_edx, 24);
  isa.amx_bf16 = isa.amx_tile && bit(w.leaf7_edx, 22);
  isa.amx_int8 = isa.amx_tile && bit(w.leaf7_edx, 25);
  return isa;
}

const Isa& usable_isa() {
  static const Isa isa = judge_isa(read_cpuid());
  return isa;
}

std::string Isa::best() const {
  if (!x86) return "not x86";
  const bool core = avx512f && avx512bw && avx512dq && avx512vl;
  if (core && amx_bf16 && amx_int8) return "avx512_core_amx";
  if (core && avx512_vnni && avx512_bf16 && avx512_fp16) return "avx512_core_fp16";
  if (core && avx512_vnni && avx512_bf16) return "avx512_core_bf16";
  if (core && avx512_vnni) return "avx512_core_vnni";
  if (core) return "avx512_core";
  if (avx2 && fma) return avx_vnni ? "avx2_vnni" : "avx2";
  if (avx) return "avx";
  return sse4_1 ? "sse4_1" : "sse2";
}

std::vector<std::string> Isa::features() const {
  const std::pair<const char*, bool> all[] = {{"sse4_1", sse4_1},
                                              {"avx", avx},
                                              {"f16c", f16c},
                                              {"avx2", avx2},
                                              {"fma", fma},
                                              {"avx_vnni", avx_vnni},
                                              {"avx512f", avx512f},
                                              {"avx512dq", avx512dq},
                                              {"avx512bw", avx512bw},
                                              {"avx512vl", avx512vl},
                                              {"avx512_vnni", avx512_vnni},
                                              {"avx512_bf16", avx512_bf16},
                                              {"avx512_fp16", avx512_fp16},
                                              {"amx_tile", amx_tile},
                                              {"amx_bf16", amx_bf16},
                                              {"amx_int8", amx_int8}};
  std::vector<std::string> names;
  for (const auto& [name, usable] : all)
    if (usable) names.emplace_back(name);
  return names;
}

std::string Isa::onednn_cap() const { return amx_lies ? "AVX512_CORE_BF16" : ""; }

std::vector<std::string> Isa::traps() const {
  std::vector<std::string> found;
  if (!x86) found.emplace_back("not x86: instruction sets are not examined, peaks come from portable loops");
  if (amx_lies)
    found.emplace_back("AMX is advertised but has no tile palette (CPUID leaf 0x1D is zero): libraries are held to " +
                       onednn_cap());
  if (avx_unsaved) found.emplace_back("the processor has AVX, but the operating system does not save its registers");
  if (avx512_unsaved)
    found.emplace_back("the processor has AVX-512, but the operating system does not save its registers");
  return found;
}

}  // namespace d5
