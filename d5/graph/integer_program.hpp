// SPDX-License-Identifier: Apache-2.0
// A linear program over variables that are 0 or 1. It is solved by a module that the build makes where it finds a
// library (solvers/cbc.cpp).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "d5/core/registry.hpp"

namespace d5 {

struct BinaryProgram {
  struct Row {  // low <= sum of coefficient * variable <= high
    std::vector<std::pair<int, double>> terms;
    double low, high;
  };
  std::vector<double> costs;  // by variable; their sum over the chosen ones becomes least
  std::vector<Row> rows;
};

struct integer_solvers {
  static constexpr const char* kind = "integer solver";
  struct Entry {
    std::string (*version)();
    // Which variables are 1 in a best solution; empty: no choice satisfies the rows.
    std::optional<std::vector<bool>> (*solve)(const BinaryProgram&);
  };
  template <class T>
  static Entry entry() {
    return {&T::version, &T::solve};
  }
};

// The solver of this build, or null where it has none.
const integer_solvers::Entry* integer_solver();
// Error without a solver.
std::optional<std::vector<bool>> solve(const BinaryProgram&);

}  // namespace d5
