// SPDX-License-Identifier: Apache-2.0
// CBC, the solver of the COIN-OR project, by its C interface.
#include <Cbc_C_Interface.h>

#include <memory>

#include "d5/core/error.hpp"
#include "d5/graph/integer_program.hpp"

namespace d5 {
namespace {

struct Cbc {
  static std::string version() { return std::string("CBC ") + Cbc_getVersion(); }
  static std::optional<std::vector<bool>> solve(const BinaryProgram&);
};

std::optional<std::vector<bool>> Cbc::solve(const BinaryProgram& program) {
  const std::unique_ptr<void, void (*)(void*)> model(Cbc_newModel(), [](void* m) { Cbc_deleteModel(m); });
  Cbc_Model* const cbc = static_cast<Cbc_Model*>(model.get());
  Cbc_setParameter(cbc, "logLevel", "0");
  Cbc_setParameter(cbc, "ratioGap", "0");
  Cbc_setParameter(cbc, "allowableGap", "0");
  for (size_t i = 0; i < program.costs.size(); ++i)
    Cbc_addCol(cbc, ("x" + std::to_string(i)).c_str(), 0, 1, program.costs[i], 1, 0, nullptr, nullptr);
  std::vector<int> columns;
  std::vector<double> coefficients;
  for (size_t r = 0; r < program.rows.size(); ++r) {
    const BinaryProgram::Row& row = program.rows[r];
    columns.clear();
    coefficients.clear();
    for (const auto& [variable, coefficient] : row.terms) {
      columns.push_back(variable);
      coefficients.push_back(coefficient);
    }
    const auto add = [&](const char* kind, char sense, double bound) {
      Cbc_addRow(cbc, (kind + std::to_string(r)).c_str(), static_cast<int>(columns.size()), columns.data(),
                 coefficients.data(), sense, bound);
    };
    if (row.low == row.high) {
      add("equal", 'E', row.low);
    } else {
      add("low", 'G', row.low);
      add("high", 'L', row.high);
    }
  }
  Cbc_solve(cbc);
  if (Cbc_isProvenInfeasible(cbc)) return {};
  if (!Cbc_isProvenOptimal(cbc)) throw Error("[integer program] CBC ended with status {}", Cbc_status(cbc));
  const double* values = Cbc_getColSolution(cbc);
  std::vector<bool> chosen;
  for (size_t i = 0; i < program.costs.size(); ++i) chosen.push_back(values[i] > 0.5);
  return chosen;
}

}  // namespace
D5_REGISTER(integer_solvers, "cbc", Cbc);
}  // namespace d5
