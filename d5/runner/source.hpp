// SPDX-License-Identifier: Apache-2.0
// A user's C++ file as a plugin: compiled when it is named, kept in $XDG_CACHE_HOME/d5/sources (or ~/.cache/d5/sources)
// under the hash of everything that decides about the result: its text with all that it includes, the compiler and its
// version, the flags, this processor and libd5. The compiler is the one that built libd5 (compile.txt beside the
// backends); D5_CXX names another one, D5_CXXFLAGS adds flags.
#pragma once

#include <string>

namespace d5 {

struct CompiledSource {
  std::string library;
  double seconds = 0;  // 0: it was in the cache
};
// UsageError with the compiler's own words where it does not compile. Any number of processes may do it at once.
CompiledSource compile_source(const std::string& path);

}  // namespace d5
