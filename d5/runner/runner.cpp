// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/runner.hpp"

#include <algorithm>
#include <map>

#include "d5/measure/clock.hpp"
#include "d5/measure/comparison.hpp"
#include "d5/runner/group.hpp"

namespace d5 {
namespace {

// Keeps the time of the whole run, from which the rest is estimated.
class Timekeeper {
 public:
  Timekeeper(size_t groups, const std::function<void(const Progress&)>& progress)
      : groups_(groups), progress_(progress) {}

  void tell(const std::string& text, int launches_done, int launches_planned) {
    const double now = now_seconds(), here = now - group_begin_;
    const double whole = launches_done > 0 ? here * launches_planned / launches_done : mean_group();
    const auto groups_after = static_cast<double>(groups_ - done_ - 1);
    const double left = std::max(0.0, whole - here) + groups_after * (done_ > 0 ? mean_group() : whole);
    if (progress_) progress_({done_, groups_, now - begin_, left, text});
  }

  void group_done() {
    ++done_;
    group_begin_ = now_seconds();
    const double left = mean_group() * static_cast<double>(groups_ - done_);
    if (progress_) progress_({done_, groups_, group_begin_ - begin_, left, ""});
  }

  double begin() const { return begin_; }

 private:
  double mean_group() const { return done_ > 0 ? (group_begin_ - begin_) / static_cast<double>(done_) : 0; }
  size_t groups_, done_ = 0;
  const std::function<void(const Progress&)>& progress_;
  double begin_ = now_seconds(), group_begin_ = begin_;
};

// A result that no record can be made of costs its own case, not those that follow.
Record record_of(const CaseResult& result) {
  const Bench& bench = bench_of(result.fields);
  try {
    return bench.record(result);
  } catch (const std::exception& error) {
    Record record{.kind = result.fields.at("kind"), .fields = result.fields, .status = "error"};
    record.reason = fmt::format("[record] what the child said cannot be read: {}", error.what());
    record.group = result.group;
    record.warnings = result.warnings;
    record.rerun = bench.rerun(result.fields);
    return record;
  }
}

}  // namespace

std::vector<std::vector<Json>> group_cases(const std::vector<Json>& cases) {
  std::vector<std::vector<Json>> groups;
  std::map<std::string, size_t> known;  // what the cases of a group have in common, as text
  for (const Json& fields : cases) {
    Json rest = fields;
    for (const std::string& field : bench_of(fields).compared_fields()) rest.erase(field);
    const auto [place, is_new] =
        known.emplace(rest.dump(-1, ' ', false, Json::error_handler_t::replace), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(fields);
  }
  return groups;
}

void run_cases(const std::vector<Json>& cases, const RunOptions& options,
               const std::function<void(const Record&)>& emit, const std::function<void(const Progress&)>& progress,
               const std::atomic<bool>& interrupted) {
  check(options);
  const auto groups = group_cases(cases);
  GroupPlan plan;
  for (const auto& group : groups) plan.comparisons += static_cast<int>(group.size()) - 1;
  plan.launches = options.launches;
  if (plan.launches == 0)
    plan.launches = plan.comparisons > 0
                        ? static_cast<int>(sturdy_sign_test_units(options.alpha, static_cast<size_t>(plan.comparisons)))
                        : 6;
  plan.timer = calibrate_timer();

  Timekeeper time(groups.size(), progress);
  plan.origin = time.begin();
  ChildPool pool(options, interrupted);
  try {
    for (; plan.index < groups.size(); ++plan.index) {
      Group group(groups[plan.index], plan, options, pool, interrupted,
                  [&](const std::string& text, int done, int planned) { time.tell(text, done, planned); });
      for (const CaseResult& result : group.run()) emit(record_of(result));
      time.group_done();
    }
  } catch (const Interrupted&) {  // the children die with the pool
  }
}

}  // namespace d5
