// SPDX-License-Identifier: Apache-2.0
#include "d5/backends/onednn/engine.hpp"

#include <cstdlib>

#include "d5/core/parallel.hpp"
#include "d5/measure/isa.hpp"

namespace d5::onednn {
namespace {

// A limit that the user set and that keeps AMX out is left alone.
bool user_cap_is_safe() {
  for (const char* variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    if (const char* value = std::getenv(variable); value && *value) {
      const std::string_view isa = value;
      return isa != "ALL" && isa != "DEFAULT" && isa.find("AMX") == std::string_view::npos;
    }
  return false;
}

// A virtual machine may advertise AMX without a tile palette; oneDNN's AMX kernels then die with SIGILL.
std::string hold_isa() {
  if (!usable_isa().amx_lies) return "";
  if (user_cap_is_safe()) return "as the environment says";
  check(dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16), "onednn: cap of the ISA");
  return "avx512_core_bf16, because AMX is advertised without a tile palette (CPUID leaf 0x1D is zero)";
}

struct Library {
  std::string cap = hold_isa();
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};
Library& library() {
  static Library one;
  return one;
}

std::string isa_name(dnnl::cpu_isa isa) {
  switch (static_cast<dnnl_cpu_isa_t>(isa)) {
    case dnnl_cpu_isa_default: return "default";
    case dnnl_cpu_isa_sse41: return "sse41";
    case dnnl_cpu_isa_avx: return "avx";
    case dnnl_cpu_isa_avx2: return "avx2";
    case dnnl_cpu_isa_avx2_vnni: return "avx2_vnni";
    case dnnl_cpu_isa_avx2_vnni_2: return "avx2_vnni_2";
    case dnnl_cpu_isa_avx512_core: return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni: return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16: return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_fp16: return "avx512_core_fp16";
    case dnnl_cpu_isa_avx512_core_amx: return "avx512_core_amx";
    case dnnl_cpu_isa_avx512_core_amx_fp16: return "avx512_core_amx_fp16";
    default: return fmt::format("isa {:#x}", static_cast<unsigned>(isa));
  }
}

template <class Attributes>
constexpr bool deterministic_exists = requires(Attributes a) {
  a.set_deterministic(true);
};

}  // namespace

dnnl::engine& engine() { return library().engine; }
dnnl::stream& stream() { return library().stream; }
std::string isa_cap() { return library().cap; }
bool has_deterministic_attribute() { return deterministic_exists<dnnl::primitive_attr>; }

Facts library_facts() {
  engine();
  const dnnl_version_t* version = dnnl_version();
  return {{"library", "oneDNN"},
          {"version", fmt::format("{}.{}.{}", version->major, version->minor, version->patch)},
          {"hash", version->hash},
          {"runtime", version->cpu_runtime == DNNL_RUNTIME_OMP ? "OpenMP" : fmt::format("{}", version->cpu_runtime)},
          {"isa", isa_name(dnnl::get_effective_cpu_isa())},
          {"isa cap", isa_cap().empty() ? "none" : isa_cap()},
          {"deterministic",
           has_deterministic_attribute() ? "by attribute" : "not promised: this version has no attribute for it"},
          {"threads", std::to_string(threads())}};
}

std::string status_name(dnnl_status_t status) {
  switch (status) {
    case dnnl_success: return "success";
    case dnnl_out_of_memory: return "out of memory";
    case dnnl_invalid_arguments: return "invalid arguments";
    case dnnl_unimplemented: return "unimplemented";
    case dnnl_last_impl_reached: return "last implementation reached";
    case dnnl_runtime_error: return "runtime error";
    case dnnl_not_required: return "not required";
    default: return fmt::format("status {}", static_cast<int>(status));
  }
}

void check(dnnl_status_t status, std::string_view place) {
  if (status != dnnl_success) throw Error("[{}] oneDNN: {}", place, status_name(status));
}

dnnl::memory::data_type data_type(DType type) {
  using Type = dnnl::memory::data_type;
  switch (type) {
    case DType::f64: return Type::f64;
    case DType::f32: return Type::f32;
    case DType::bf16: return Type::bf16;
    case DType::f16: return Type::f16;
    case DType::i32: return Type::s32;
    case DType::i8: return Type::s8;
    case DType::u8: return Type::u8;
    default: throw Error("[onednn] oneDNN has no type {}", name(type));
  }
}

}  // namespace d5::onednn
