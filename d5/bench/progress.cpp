// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/progress.hpp"

#include <utility>

namespace d5 {
namespace {

ProgressListener& listener() {
  static ProgressListener one;
  return one;
}

}  // namespace

void report_progress(const std::string& text, double fraction) {
  if (listener()) listener()(text, fraction);
}

void set_progress_listener(ProgressListener next) { listener() = std::move(next); }

}  // namespace d5
