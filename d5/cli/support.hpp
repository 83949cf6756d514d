// SPDX-License-Identifier: Apache-2.0
// d5 list operators --support: which backend has which operator. Every conformance case is built (asked why_not, then
// compiled) in a child, nothing is computed: `passed` says that the backend takes the case, not that its results are
// right; that is what the conformance tests say.
#pragma once

#include <string>

namespace d5 {

struct SupportQuery {
  std::string backends, operators;  // names separated by commas; empty: all that are on, all
  bool json = false;
};
int list_support(const SupportQuery&);  // exit status: 1 where a case ended in an error

}  // namespace d5
