// SPDX-License-Identifier: Apache-2.0
#include "d5/cli/interrupt.hpp"

#include <unistd.h>
#include <csignal>

namespace d5 {
namespace {

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int) {
  if (flag.exchange(true)) _exit(130);
}

}  // namespace

std::atomic<bool>& interrupt_flag() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    return true;
  }();
  (void)installed;
  return flag;
}

bool was_interrupted() { return flag; }

}  // namespace d5
