// SPDX-License-Identifier: Apache-2.0
// A first try in a process of its own. HDF5's library crashes on some damaged files, and would take a whole run along.
#pragma once

#include <functional>
#include <string>

namespace d5 {

// Forks and calls `attempt` there; exceptions of it are let be, they will come again. Error that names the file where
// the process dies or takes longer than 20 seconds.
void try_in_a_process(const std::string& file, const std::function<void()>& attempt);

}  // namespace d5
