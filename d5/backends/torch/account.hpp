// SPDX-License-Identifier: Apache-2.0
// What LibTorch allocates on the host, counted by its own allocator: the bytes of one executable, their peak, and a
// limit that ends the allocation which would exceed it. Buffers inside the libraries beneath (scratchpads of
// convolutions) are not seen.
#pragma once

#include <cstddef>
#include <string>

namespace d5::libtorch {

void count_allocations();  // from now on, in this process

struct Account {
  std::string owner;
  size_t limit = 0;  // 0: none
  size_t held = 0, peak = 0;
};

// While it lives, what is allocated and freed belongs to the account. One at a time.
class Accounting {
 public:
  explicit Accounting(Account&);
  ~Accounting();
  Accounting(const Accounting&) = delete;
  Accounting& operator=(const Accounting&) = delete;

 private:
  Account& account_;
  long before_;
};

}  // namespace d5::libtorch
