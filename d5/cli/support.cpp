// SPDX-License-Identifier: Apache-2.0
#include "d5/cli/support.hpp"

#include <unistd.h>

#include <iostream>
#include <map>
#include <set>

#include "d5/backends/backend.hpp"
#include "d5/bench/conformance_cases.hpp"
#include "d5/cli/command.hpp"
#include "d5/cli/interrupt.hpp"
#include "d5/cli/progress.hpp"
#include "d5/operators/operator.hpp"
#include "d5/report/text_table.hpp"
#include "d5/runner/runner.hpp"

namespace d5 {
namespace {

struct Tally {
  int passed = 0, unsupported = 0, failed = 0;
  std::set<std::string> reasons;
  int all() const { return passed + unsupported + failed; }
};
using Key = std::pair<std::string, std::string>;                                     // operator, backend
using Tallies = std::map<Key, std::map<std::string, std::map<std::string, Tally>>>;  // -> dtype -> pass

// The same reason for two operators is one: "[graph] Abs: node 'Abs' (Abs): no f64" and "Abs has no gradient".
std::string without_operator(std::string reason, const std::string& op) {
  const std::string node = fmt::format("[graph] {0}: node '{0}' ({0}): ", op);
  if (reason.starts_with(node)) return reason.substr(node.size());
  return reason.starts_with(op + " ") ? reason.substr(op.size() + 1) : reason;
}

void count(const Record& record, Tallies& tallies) {
  const auto text = [&](const char* name) { return record.fields.at(name).get<std::string>(); };
  Tally& tally = tallies[{text("operator"), text("backend")}][text("dtype")][text("pass")];
  ++(record.status == "passed" ? tally.passed : record.status == "unsupported" ? tally.unsupported : tally.failed);
  if (!record.reason.empty()) tally.reasons.insert(without_operator(record.reason, text("operator")));
}

void print_json(const Tallies& tallies) {
  for (const auto& [key, dtypes] : tallies)
    for (const auto& [dtype, passes] : dtypes)
      for (const auto& [pass, tally] : passes)
        std::cout << Json{{"name", key.first},
                          {"operator", key.first},
                          {"backend", key.second},
                          {"dtype", dtype},
                          {"pass", pass},
                          {"passed", tally.passed},
                          {"unsupported", tally.unsupported},
                          {"failed", tally.failed},
                          {"reasons", tally.reasons}}
                         .dump()
                  << "\n";
}

// "both", "forward", "backward"; with counts where only some of the cases are taken: "forward 3/8".
std::string cell_text(const std::map<std::string, Tally>& passes) {
  std::vector<std::string> parts;
  bool whole = true;
  for (const char* pass : {"forward", "backward"}) {
    const auto found = passes.find(pass);
    if (found == passes.end() || found->second.passed == 0) continue;
    const Tally& tally = found->second;
    whole = whole && tally.passed == tally.all();
    parts.push_back(tally.passed == tally.all() ? pass : fmt::format("{} {}/{}", pass, tally.passed, tally.all()));
  }
  if (parts.empty()) return "-";
  if (parts.size() == 2 && whole) return "both";
  return parts.size() == 2 ? parts[0] + ", " + parts[1] : parts[0];
}

void print_table(const Tallies& tallies) {
  std::vector<std::string> notes;
  TextTable table;
  table.column("operator");
  table.column("backend");
  for (const std::string& dtype : conformance_dtypes()) table.column(dtype);
  for (const auto& [key, dtypes] : tallies) {
    std::vector<Cell> cells{{key.first}, {key.second}};
    std::set<size_t> marks;
    for (const std::string& dtype : conformance_dtypes()) {
      const auto found = dtypes.find(dtype);
      cells.push_back({found == dtypes.end() ? "" : cell_text(found->second)});
      if (found == dtypes.end()) continue;
      for (const auto& [pass, tally] : found->second)
        for (const std::string& reason : tally.reasons) {
          const auto place = std::ranges::find(notes, reason);
          marks.insert(static_cast<size_t>(place - notes.begin()) + 1);
          if (place == notes.end()) notes.push_back(reason);
        }
    }
    std::string remark;
    for (const size_t mark : marks) remark += fmt::format("[{}]", mark);
    table.row(std::move(cells), {remark});
  }
  std::cout << table.text(false) << "\nboth: forward and backward. An empty cell: ONNX does not define it.\n";
  for (size_t i = 0; i < notes.size(); ++i) std::cout << fmt::format("[{}] {}\n", i + 1, notes[i]);
}

}  // namespace

int list_support(const SupportQuery& query) {
  std::vector<std::string> available, backends = split_names(query.backends), names = split_names(query.operators);
  for (const BackendStatus& status : backend_statuses())
    if (status.available) available.push_back(status.name);
  for (const std::string& name : backends)
    if (std::ranges::find(available, name) == available.end())
      fail_unknown("[list]", "backend that is on", name, available);
  for (const std::string& name : names) registered<operators>(name);
  if (backends.empty()) backends = available;
  if (names.empty()) names = registry_names(operators::kind);

  std::vector<Json> cases;
  Tallies tallies;
  std::map<std::string, std::string> faults;  // of operators that cannot even say what their cases are
  for (const ConformanceCell& cell : conformance_cells(names))
    for (const std::string& backend : backends) {
      if (!faults.contains(cell.op)) try {
          for (Json& one : conformance_cases(cell, backend, "cpu", {"fast"}, 1)) cases.push_back(std::move(one));
        } catch (const Error& error) {
          faults[cell.op] = error.what();
        }
      if (const auto fault = faults.find(cell.op); fault != faults.end()) {
        Tally& tally = tallies[{cell.op, backend}][cell.dtype][cell.pass];
        ++tally.failed;
        tally.reasons.insert(fault->second);
      }
    }
  ProgressBar bar(!isatty(STDERR_FILENO));
  run_cases(
      cases, {.depth = Depth::build}, [&](const Record& record) { count(record, tallies); },
      [&](const Progress& progress) { bar.show(progress); }, interrupt_flag());
  bar.clear();
  if (was_interrupted()) return exit_interrupted;
  query.json ? print_json(tallies) : print_table(tallies);
  for (const auto& [key, dtypes] : tallies)
    for (const auto& [dtype, passes] : dtypes)
      for (const auto& [pass, tally] : passes)
        if (tally.failed > 0) return exit_failed;
  return exit_passed;
}

}  // namespace d5
