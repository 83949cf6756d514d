// SPDX-License-Identifier: Apache-2.0
// A progress bar with the remaining time on a terminal's stderr; a plain line per finished group elsewhere.
#pragma once

#include <string>

#include "d5/runner/runner.hpp"

namespace d5 {

class ProgressBar {
 public:
  explicit ProgressBar(bool quiet);
  ~ProgressBar() { clear(); }
  void show(const Progress&);
  void clear();

 private:
  bool terminal_, quiet_, drawn_ = false;
  size_t groups_said_ = 0;
};

}  // namespace d5
