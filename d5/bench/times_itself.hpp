// SPDX-License-Identifier: Apache-2.0
// An Executable in another process also is a TimesItself: it times its own steps, because a message for each of them
// would be timed, too.
#pragma once

#include "d5/bench/session.hpp"

namespace d5 {

class TimesItself {
 public:
  virtual ~TimesItself() = default;
  // Steps of the pass that it was compiled for, on what was written last. With flush_bytes the caches are walked over
  // by so many bytes before every sample, untimed.
  virtual SliceResult time_steps(const Slice&, int64_t flush_bytes) = 0;
  virtual Json details() const = 0;  // what it tells of itself once it has run: {"compile_s": 3.1}
};

}  // namespace d5
