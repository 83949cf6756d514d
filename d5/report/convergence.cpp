// SPDX-License-Identifier: Apache-2.0
#include "d5/report/convergence.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "d5/report/case_fields.hpp"

namespace d5 {
namespace {

constexpr double alpha = 0.05;

struct Runs {
  std::string key, name;
  std::vector<double> epochs;  // infinite: never
};

std::vector<Runs> collect(std::span<const Record> records, const std::vector<std::string>& ignore) {
  std::vector<Runs> result;
  for (const Record& record : records) {
    if (record.kind != "train" || !record.fields.is_object() || record.fields.value("target", 0.0) == 0) continue;
    Record bare{.kind = record.kind, .fields = record.fields};
    for (const char* field : {"kind", "seed"}) bare.fields.erase(field);
    for (const std::string& field : ignore) bare.fields.erase(field);
    const std::string key = bare.fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    auto known = std::ranges::find(result, key, &Runs::key);
    if (known == result.end()) known = result.insert(result.end(), Runs{key, case_name(bare), {}});
    const Metric* reached = record.metric("epochs_to_target");
    known->epochs.push_back(reached ? reached->median : std::numeric_limits<double>::infinity());
  }
  return result;
}

}  // namespace

std::vector<Convergence> compare_convergence(std::span<const Record> reference, std::span<const Record> submission,
                                             const std::vector<std::string>& ignore) {
  const std::vector<Runs> known = collect(reference, ignore), given = collect(submission, ignore);
  std::vector<Convergence> result;
  for (const Runs& runs : known) {
    const auto other = std::ranges::find(given, runs.key, &Runs::key);
    if (other == given.end()) continue;
    Convergence one{.name = runs.name,
                    .reference_runs = runs.epochs.size(),
                    .runs = other->epochs.size(),
                    .comparison = trimmed_test(other->epochs, runs.epochs)};
    one.too_fast = one.comparison && one.comparison->p_smaller < alpha;
    result.push_back(std::move(one));
  }
  return result;
}

std::string convergence_text(std::span<const Convergence> all) {
  if (all.empty()) return {};
  std::string text = "Epochs to the target, trimmed means (Yuen's test, 5 %):\n";
  for (const Convergence& one : all) {
    text += fmt::format("  {}: ", one_line(one.name));
    if (!one.comparison) {
      text += fmt::format("unclear, too few of {} and {} runs reached it\n", one.reference_runs, one.runs);
      continue;
    }
    const TrimmedTest& test = *one.comparison;
    text += fmt::format("first {:.4g} ({} runs), second {:.4g} ({} runs), p = {:.2g}: {}\n", test.second_mean,
                        one.reference_runs, test.first_mean, one.runs, test.p_smaller,
                        one.too_fast ? "faster than the first set allows: something else was changed"
                                     : "not faster than the first set allows");
  }
  return text;
}

}  // namespace d5
