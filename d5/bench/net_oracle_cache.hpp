// SPDX-License-Identifier: Apache-2.0
// What the oracle of networks found, kept in the user's cache ($XDG_CACHE_HOME/d5/oracle or ~/.cache/d5/oracle): its
// plain loops take seconds to minutes, and every launch needs the same. A file that does not fit is as good as none.
#pragma once

#include "d5/bench/net_problem.hpp"

namespace d5 {

// Names of all that decides the results: the graph with its constants, and how it was run.
std::string oracle_key(const Graph&, const std::string& how);

// The values and tolerances of problem.expected, which holds their names. False: nothing is kept under this key.
bool load_expected(const std::string& key, NetProblem&);
// Nothing where one of them is not finite.
void save_expected(const std::string& key, const NetProblem&);

}  // namespace d5
