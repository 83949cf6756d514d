// SPDX-License-Identifier: Apache-2.0
// Under sanitizers code runs ten times slower: tests of many attempts make fewer there.
#pragma once

namespace d5 {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

}  // namespace d5
