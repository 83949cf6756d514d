// SPDX-License-Identifier: Apache-2.0
// The rounding and denormal mode of a thread, so that the threads of a loop compute as their caller does.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace d5 {

class FloatingMode {
 public:
#if defined(__SSE2__)
  FloatingMode() : mode_(_mm_getcsr()) {}
  class Held {  // while it lives, the present thread has that mode
   public:
    explicit Held(const FloatingMode& wanted) : before_(_mm_getcsr()) { _mm_setcsr(wanted.mode_); }
    ~Held() { _mm_setcsr(before_); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    unsigned before_;
  };

 private:
  unsigned mode_;
#else
  class Held {
   public:
    explicit Held(const FloatingMode&) {}
    ~Held() {}
  };
#endif
};

}  // namespace d5
