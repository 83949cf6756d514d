// SPDX-License-Identifier: Apache-2.0
// Every backend x operator x case x dtype, forward and gradient, against the oracle; prints a table and the reason of
// everything that is unsupported. Exit status 1 when one case fails.
//   conformance [--operator A,B] [--dtype A,B] [--device cpu] [--shard 1/2] [--json] [BACKEND...]
// --shard I/N: the I-th of N equal parts; --json: one object a line instead of the table.
#include <fmt/core.h>

#include <cstdio>
#include <set>
#include <sstream>

#include "d5/backends/backend.hpp"
#include "d5/bench/conformance_cases.hpp"
#include "d5/core/parallel.hpp"
#include "d5/operators/operator.hpp"

namespace d5 {
namespace {

struct Options {
  std::vector<std::string> backends, operators, dtypes;
  std::string device = "cpu";
  size_t shard = 1, shards = 1;
  bool json = false;
};

struct Tally {
  int passed = 0, unsupported = 0, failed = 0;
  std::set<std::string> reasons;
  int all() const { return passed + unsupported + failed; }
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream parts(text);
  for (std::string word; std::getline(parts, word, ',');) words.push_back(word);
  return words;
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const auto value = [&] {
      if (i + 1 == arguments.size()) throw UsageError("[conformance] {} wants a value", word);
      return arguments[++i];
    };
    if (word == "--operator") {
      options.operators = split(value());
    } else if (word == "--dtype") {
      options.dtypes = split(value());
    } else if (word == "--device") {
      options.device = value();
    } else if (word == "--json") {
      options.json = true;
    } else if (word == "--shard") {
      const std::string text = value();
      if (std::sscanf(text.c_str(), "%zu/%zu", &options.shard, &options.shards) != 2 || options.shard < 1 ||
          options.shard > options.shards)
        throw UsageError("[conformance] --shard is '{}'; legal: I/N with 1 <= I <= N", text);
    } else if (word.starts_with("-")) {
      fail_unknown("[conformance]", "option", word,
                   std::vector<std::string>{"--operator", "--dtype", "--device", "--shard", "--json"});
    } else {
      options.backends.push_back(word);
    }
  }
  for (const std::string& op : options.operators) registered<operators>(op);
  for (const std::string& dtype : options.dtypes)
    if (std::ranges::find(conformance_dtypes(), dtype) == conformance_dtypes().end())
      fail_unknown("[conformance]", "dtype", dtype, conformance_dtypes());
  if (options.operators.empty()) options.operators = registry_names(operators::kind);
  if (options.backends.empty())
    for (const BackendStatus& status : backend_statuses())
      if (status.available) options.backends.push_back(status.name);
  return options;
}

void check(const Json& fields, Tally& tally) {
  Outcome outcome;
  try {
    outcome = bench_of(fields).open(fields)->prepare(Depth::check);
  } catch (const std::exception& error) {
    outcome = {.status = "error", .reason = error.what()};
  }
  if (outcome.status == "passed") {
    ++tally.passed;
  } else if (outcome.status == "unsupported") {
    ++tally.unsupported;
    tally.reasons.insert(outcome.reason);
  } else if (outcome.status == "mistrusted" &&
             outcome.reason.find("every expected value is zero") != std::string::npos) {
    ++tally.passed;  // a gradient that is zero by its meaning, such as that of a case with one element
  } else {
    ++tally.failed;
    fmt::print(stderr, "FAILED {}\n       {}: {}\n", bench_of(fields).rerun(fields), outcome.status, outcome.reason);
  }
}

void print(const Options& options, const std::string& backend, const ConformanceCell& cell, const Tally& tally) {
  if (options.json) {
    fmt::print("{}\n", Json{{"backend", backend},
                            {"device", options.device},
                            {"operator", cell.op},
                            {"dtype", cell.dtype},
                            {"pass", cell.pass},
                            {"passed", tally.passed},
                            {"unsupported", tally.unsupported},
                            {"failed", tally.failed},
                            {"reasons", tally.reasons}}
                           .dump());
    return;
  }
  fmt::print("{:<10} {:<28} {:<5} {:<8} {:>6} {:>11} {:>6}\n", backend, cell.op, cell.dtype, cell.pass, tally.passed,
             tally.unsupported, tally.failed);
  for (const std::string& reason : tally.reasons) fmt::print("{:<10} unsupported: {}\n", "", reason);
}

int run(const Options& options) {
  int passed = 0, failed = 0;
  if (!options.json)
    fmt::print("{:<10} {:<28} {:<5} {:<8} {:>6} {:>11} {:>6}\n", "backend", "operator", "dtype", "pass", "passed",
               "unsupported", "failed");
  std::vector<std::string> part;  // whole operators: their cells cost about the same
  for (size_t i = options.shard - 1; i < options.operators.size(); i += options.shards)
    part.push_back(options.operators[i]);
  const std::vector<ConformanceCell> cells = conformance_cells(part);
  for (const std::string& backend : options.backends) {
    int passed_here = 0;
    for (const ConformanceCell& cell : cells) {
      if (!options.dtypes.empty() && std::ranges::find(options.dtypes, cell.dtype) == options.dtypes.end()) continue;
      Tally tally;
      for (const Json& fields : conformance_cases(cell, backend, options.device, {"fast", "plain"}, usable_cores()))
        check(fields, tally);
      if (tally.all() == 0) continue;
      print(options, backend, cell, tally);
      std::fflush(stdout);
      passed_here += tally.passed;
      failed += tally.failed;
    }
    if (passed_here == 0) {
      fmt::print(stderr, "FAILED {}: not one case passed\n", backend);
      ++failed;
    }
    passed += passed_here;
  }
  fmt::print(options.json ? stderr : stdout, "{} passed, {} failed\n", passed, failed);
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace d5

int main(int argc, char** argv) try {
  return d5::run(d5::parse({argv + 1, argv + argc}));
} catch (const d5::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 2;
}
