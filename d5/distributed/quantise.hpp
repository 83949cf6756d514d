// SPDX-License-Identifier: Apache-2.0
// Random rounding to few levels (QSGD; Alistarh et al., 2017), a scale for every group of consecutive numbers:
//   m = max |v|      q_i = sign(v_i) floor(|v_i| / m s + u_i)      decoded: m q_i / s      s = 2^(bits - 1) - 1
// with u_i uniform in [0, 1): the expectation of what is decoded is v, and it is off by less than m / s. The largest
// magnitude stands in place of the paper's 2-norm, as in its experiments: less variance, and q fits into `bits`. A
// group with a value that is no number is decoded to nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "d5/core/rng.hpp"

namespace d5 {

class Quantiser {
 public:
  Quantiser(int64_t bits, int64_t group) : bits_(bits), group_(group), levels_((int64_t{1} << (bits - 1)) - 1) {}

  int64_t encoded_bytes(int64_t numbers) const;
  double levels() const { return static_cast<double>(levels_); }
  // Number i of `values` takes number first + i of the stream.
  void encode(std::span<const float> values, const Rng&, uint64_t first, std::byte* to) const;
  void add_decoded(const std::byte* from, std::span<float> sums) const;

 private:
  int64_t bits_, group_, levels_;
};

}  // namespace d5
