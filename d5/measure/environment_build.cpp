// SPDX-License-Identifier: Apache-2.0
// How libd5 was built. The build passes the version, the flags and the git revision to this file alone, so that a
// commit recompiles nothing else.
#include <dlfcn.h>
#include <fmt/core.h>
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif
#include <toml++/toml.h>

#include "d5/measure/environment_parts.hpp"

namespace d5 {
namespace {

using nlohmann::json;

std::string dotted(int number) { return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100); }

// The OpenMP runtime that is really loaded; a backend may have brought another one than the compiler's.
json openmp_runtimes() {
  json loaded = json::array();
  for (const char* name : {"libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so"})
    if (void* handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {
      loaded.push_back(name);
      dlclose(handle);
    }
  return loaded;
}

}  // namespace

json build_environment() {
#if defined(__clang__)
  const std::string compiler = std::string("clang ") + __clang_version__;
#else
  const std::string compiler = std::string("gcc ") + __VERSION__;
#endif
  return {{"version", D5_VERSION},     {"type", D5_BUILD_TYPE},   {"compiler", compiler},
          {"flags", D5_COMPILE_FLAGS}, {"standard", __cplusplus}, {"revision", D5_GIT_REVISION}};
}

json library_environment() {
  json libraries = {{"fmt", dotted(FMT_VERSION)},
                    {"nlohmann_json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                                  NLOHMANN_JSON_VERSION_PATCH)},
                    {"tomlplusplus", fmt::format("{}.{}.{}", TOML_LIB_MAJOR, TOML_LIB_MINOR, TOML_LIB_PATCH)},
                    {"openmp_runtimes", openmp_runtimes()}};
#if defined(_OPENMP)
  libraries["openmp"] = _OPENMP;  // year and month of the specification
#endif
#if defined(__GLIBC__)
  libraries["glibc"] = gnu_get_libc_version();
#endif
  return libraries;
}

}  // namespace d5
