// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM end a run after the records so far are whole; a second one ends the program at once.
#pragma once

#include <atomic>

namespace d5 {

std::atomic<bool>& interrupt_flag();  // installs the handlers on the first call
bool was_interrupted();

}  // namespace d5
