// SPDX-License-Identifier: Apache-2.0
#include "d5/graph/integer_program.hpp"

#include "d5/core/plugins.hpp"

namespace d5 {

const integer_solvers::Entry* integer_solver() {
  static const bool opened = [] {
    const auto module = library_folder() / "d5" / "libd5_cbc.so";
    if (std::filesystem::exists(module)) load_plugin(module);
    return true;
  }();
  return opened ? find_registered<integer_solvers>("cbc") : nullptr;
}

std::optional<std::vector<bool>> solve(const BinaryProgram& program) {
  if (const auto* solver = integer_solver()) return solver->solve(program);
  throw Error("[integer program] this build has no solver; install coinor-libcbc-dev and configure again");
}

}  // namespace d5
