// SPDX-License-Identifier: Apache-2.0
// Algorithms that pair ranks by the bits of their numbers want 2^k of them. Of n = 2^k + r ranks the first 2 r pair up:
// the even one gives its vector to the odd one, sits out, and gets the result at the end.
#pragma once

#include <bit>
#include <cstring>

#include "d5/distributed/ranks.hpp"

namespace d5 {

class Fold {
 public:
  explicit Fold(const Ranks& ranks)
      : ranks_(ranks),
        size_(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks.size())))),
        extra_(ranks.size() - size_) {}

  int size() const { return size_; }  // a power of two
  int place() const {                 // among them; -1: this rank sits out
    if (ranks_.rank() >= 2 * extra_) return ranks_.rank() - extra_;
    return ranks_.rank() % 2 ? ranks_.rank() / 2 : -1;
  }
  int rank_of(int place) const { return place < extra_ ? 2 * place + 1 : place + extra_; }

  // Afterwards `op.output` of those who take part holds the sums of all pairs.
  void enter(const Operation& op) const {
    const auto bytes = static_cast<size_t>(storage_bytes(op.dtype, op.count));
    const int rank = ranks_.rank();
    if (place() < 0) return ranks_.send_now(rank + 1, op.input, bytes);
    if (rank < 2 * extra_) {
      std::byte* const theirs = ranks_.scratch(bytes);
      ranks_.receive_now(rank - 1, theirs, bytes);
      combine(op, op.output, op.input, theirs, op.count);
    } else if (op.input != op.output && bytes > 0) {
      std::memcpy(op.output, op.input, bytes);
    }
  }
  void leave(const Operation& op) const {
    const auto bytes = static_cast<size_t>(storage_bytes(op.dtype, op.count));
    const int rank = ranks_.rank();
    if (place() < 0)
      ranks_.receive_now(rank + 1, op.output, bytes);
    else if (rank < 2 * extra_)
      ranks_.send_now(rank - 1, op.output, bytes);
  }

 private:
  const Ranks& ranks_;
  int size_, extra_;
};

}  // namespace d5
