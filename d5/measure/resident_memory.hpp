// SPDX-License-Identifier: Apache-2.0
// How far the memory of this process grew: the peak of its resident set, as Linux counts it, beyond what was resident
// at the beginning. Everything that was touched counts, whoever allocated it: a library's own buffers, generated code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace d5 {

class ResidentPeak {
 public:
  ResidentPeak();  // the beginning; what was freed before is given back first, so that it is not used unseen
  std::optional<int64_t> growth_bytes() const;  // up to now; empty where Linux does not tell
  const std::string& why_not() const { return reason_; }

 private:
  int64_t begin_ = 0;
  std::string reason_;
};

}  // namespace d5
