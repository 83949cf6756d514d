// SPDX-License-Identifier: Apache-2.0
// What does d5 add to a library? Each case runs through a d5 Executable and through the same calls written by hand,
// with buffers of their own, in one process. Slices alternate as d5, direct, direct, d5; both sides are made anew
// several times with other addresses, because placement alone moves times by per cents. Ratios only: other work on the
// machine hits both sides.
#pragma once

#include "d5/backends/backend.hpp"

namespace d5 {

struct OverheadCase {
  std::string op;
  Attributes values;
  Pass pass = Pass::forward;
  std::string label() const;
};

// What a user of the library writes: run() returns when the work is done.
class Direct {
 public:
  virtual ~Direct() = default;
  virtual void run() = 0;
  virtual std::string implementation() const = 0;
  // Whether that is what d5 says it runs: otherwise two things would be compared.
  virtual bool is(const std::string& implementation_of_d5) const { return implementation_of_d5 == implementation(); }
};

struct OverheadProgram {
  std::string backend, about;
  std::function<std::unique_ptr<Direct>(const OverheadCase&, const OperatorCase&)> direct;
};

// Random values that repeat every million: making 10^9 of them anew for every repetition would take longer than the
// rest.
void fill_periodically(const Tensor& f32, uint64_t stream);

// The command line of bin/d5-overhead-...: which cases, how long; prints the table. Exit status: 0 within the limits.
int overhead_main(int argc, char** argv, const OverheadProgram&);

}  // namespace d5
