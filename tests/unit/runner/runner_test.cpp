// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/runner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "d5/measure/clock.hpp"
#include "d5/measure/isa.hpp"
#include "fake_bench.hpp"

namespace d5 {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::vector<Record> run_all(const std::vector<Json>& cases, const RunOptions& options = {}) {
  std::vector<Record> records;
  const std::atomic<bool> never = false;
  run_cases(
      cases, options, [&](const Record& record) { records.push_back(record); }, {}, never);
  return records;
}

bool no_child_is_left() { return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

// Samples of each (launch, round), with the start of the first.
std::map<std::pair<int, int>, std::pair<size_t, double>> slices(const Record& record) {
  std::map<std::pair<int, int>, std::pair<size_t, double>> result;
  const Samples& s = record.samples;
  for (size_t i = 0; i < s.time_s.size(); ++i) {
    auto [place, fresh] = result.try_emplace({s.launch[i], s.round[i]}, 0, s.start_s[i]);
    ++place->second.first;
  }
  return result;
}

Json with(Json fields, const std::string& name, const Json& value) {
  fields[name] = value;
  return fields;
}

TEST(Grouping, IsByAllButTheComparedFields) {
  const Json a1 = with(fake_case("a"), "m", 1), a2 = with(fake_case("a"), "m", 2), b1 = with(fake_case("b"), "m", 1);
  EXPECT_EQ(group_cases({a1, a2, b1}), (std::vector<std::vector<Json>>{{a1, b1}, {a2}}));
  EXPECT_THROW(group_cases({{{"kind", "fakes"}}}), UsageError);
}

// 2 GiB where 1 GiB is allowed: no child is started for it, and its neighbour runs.
TEST(Runner, WhatDoesNotFitIsSkippedWithTheFigure) {
  for (const Depth depth : {Depth::check, Depth::measure}) {
    RunOptions options{.depth = depth, .launches = 1};
    options.limits.memory_bytes = size_t{1} << 30;
    const auto records = run_all(
        {with(fake_case("a"), "needs_bytes", 2147483648.0), with(fake_case("b"), "needs_bytes", 1000.0)}, options);
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(records[0].status, "skipped");
    EXPECT_EQ(records[0].reason, "needs about 2.0 GiB of memory; 1.0 GiB are the limit");
    EXPECT_TRUE(records[0].details["prepared"].empty());
    EXPECT_EQ(records[1].status, "passed");
  }
}

TEST(Runner, NineLaunchesEqualRoundsFreshChildren) {
  const auto records = run_all({fake_case("a"), fake_case("b")});
  ASSERT_EQ(records.size(), 2u);
  for (const Record& record : records) {
    EXPECT_EQ(record.status, "passed");
    EXPECT_EQ(record.stopped, "converged");
    EXPECT_EQ(record.group, records[0].group);
    EXPECT_EQ(record.details["comparisons"], 1);
    const auto all = slices(record);
    EXPECT_EQ(all.size(), 9u * 4u);
    // 0.02 s of iterations of 0.1 ms are 200 samples; the clock is far finer, so none is batched.
    for (const auto& [place, slice] : all) EXPECT_EQ(slice.first, 200u);
    EXPECT_EQ(record.samples.batch, 1);
    EXPECT_EQ(record.samples.warmup_s.size(), 18u);  // two a launch
    EXPECT_EQ(record.details["prepared"].size(), 9u);
    EXPECT_EQ(record.details["finished"].size(), 9u);
    EXPECT_EQ(record.details["probes"].size(), 36u);
    EXPECT_EQ(record.details["probes"][0]["rewarm"], 20);  // a tenth of a slice
    std::set<int> pids;
    for (const Json& details : record.details["prepared"]) pids.insert(details["pid"].get<int>());
    EXPECT_EQ(pids.size(), 9u);
    EXPECT_EQ(record.warnings, std::vector<std::string>{});
    EXPECT_TRUE(std::ranges::is_sorted(record.samples.start_s));
    EXPECT_GE(record.samples.start_s.front(), 0);
  }
  EXPECT_TRUE(no_child_is_left());
}

TEST(Runner, TwoAlternateAsAbba) {
  const auto records = run_all({fake_case("a"), fake_case("b")});
  const auto a = slices(records[0]), b = slices(records[1]);
  std::set<bool> first_places;
  for (int launch = 0; launch < 6; ++launch)
    for (int round = 0; round < 4; round += 2) {
      const bool first = a.at({launch, round}).second < b.at({launch, round}).second;
      const bool second = a.at({launch, round + 1}).second < b.at({launch, round + 1}).second;
      EXPECT_NE(first, second);
      first_places.insert(first);
      // Interleaved: no child takes its second slice before the other has had its first.
      EXPECT_LT(std::max(a.at({launch, round}).second, b.at({launch, round}).second),
                std::min(a.at({launch, round + 1}).second, b.at({launch, round + 1}).second));
    }
  EXPECT_EQ(first_places.size(), 2u);  // drawn anew, not always A first
}

TEST(Runner, ThreeTakeEachPlaceEquallyOften) {
  RunOptions options;
  options.rounds = 3;
  options.launches = 1;
  const auto records = run_all({fake_case("a"), fake_case("b"), fake_case("c")}, options);
  std::map<std::pair<int, int>, int> places;  // (case, place) -> count
  for (int round = 0; round < 3; ++round) {
    std::map<double, int> order;
    for (int i = 0; i < 3; ++i) order[slices(records[static_cast<size_t>(i)]).at({0, round}).second] = i;
    int place = 0;
    for (const auto& [start, one] : order) ++places[{one, place++}];
  }
  EXPECT_EQ(places.size(), 9u);
}

TEST(Runner, MisbehaviourEndsOneCaseOnly) {
  struct Expected {
    std::string does, when, reason;
  };
  RunOptions options;
  options.launches = 2;
  options.limits.memory_bytes = 700'000'000;
  for (const Expected& e : std::vector<Expected>{{"segfault", "run", "killed by SIGSEGV"},
                                                 {"segfault", "prepare", "killed by SIGSEGV"},
                                                 {"segfault", "finish", "killed by SIGSEGV"},
                                                 {"allocate", "run", "outgrew its memory limit of 0.7 GiB"},
                                                 {"exit", "run", "exited with status 0"},
                                                 {"garbage", "run", "no JSON object"},
                                                 {"throw", "run", "did not like the case"},
                                                 {"exhaust", "prepare", "out of memory"}}) {
    const auto records =
        run_all({fake_case("a", e.does, e.when), fake_case("b"), with(fake_case("a"), "m", 2)}, options);
    ASSERT_EQ(records.size(), 3u);
    EXPECT_EQ(records[0].status, "error") << e.does;
    EXPECT_THAT(records[0].reason, HasSubstr(e.reason));
    EXPECT_TRUE(records[0].samples.time_s.empty());
    EXPECT_EQ(records[0].stopped, "");
    for (size_t other : {1u, 2u}) {
      EXPECT_EQ(records[other].status, "passed") << e.does;
      EXPECT_EQ(slices(records[other]).size(), 8u) << e.does;
    }
  }
  EXPECT_TRUE(no_child_is_left());
}

TEST(Runner, AHangIsKilledAndTheRunGoesOn) {
  RunOptions options;
  options.launches = 2;
  options.limits.seconds = 1;
  const double begin = now_seconds();
  const auto records = run_all({fake_case("a", "hang"), fake_case("b")}, options);
  EXPECT_THAT(records[0].reason, HasSubstr("no answer within 1 s"));
  EXPECT_EQ(records[1].status, "passed");
  EXPECT_LT(now_seconds() - begin, 3);
}

TEST(Runner, FloodsOfTextDoNoHarm) {
  RunOptions options;
  options.launches = 1;
  const auto records = run_all({fake_case("a", "print"), fake_case("b")}, options);
  EXPECT_EQ(records[0].status, "passed");
  EXPECT_EQ(slices(records[0]).size(), 4u);
}

TEST(Runner, LastWordsAreKept) {
  const auto records = run_all({fake_case("a", "last words")});
  EXPECT_THAT(records[0].reason, HasSubstr("SIGABRT"));
  EXPECT_THAT(records[0].warnings, Contains(HasSubstr("the matrix is singular")));
}

TEST(Runner, AResultThatNoRecordCanBeMadeOfEndsOneCaseOnly) {
  const auto records = run_all({fake_case("a", "unreadable"), fake_case("b")}, {.launches = 1});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].status, "error");
  EXPECT_EQ(records[0].kind, "fake");
  EXPECT_EQ(records[0].rerun, "d5 fake");
  EXPECT_THAT(records[0].reason, HasSubstr("a number is wanted"));
  EXPECT_EQ(records[1].status, "passed");
}

TEST(Runner, StatusesOfTheSessionAreTaken) {
  RunOptions options;
  options.launches = 2;
  for (const std::string status : {"unsupported", "skipped", "failed"}) {
    const auto records = run_all({fake_case("a", status, "prepare"), fake_case("b")}, options);
    EXPECT_EQ(records[0].status, status);
    EXPECT_EQ(records[0].reason, "because it is " + status);
    EXPECT_TRUE(records[0].samples.time_s.empty());
    EXPECT_EQ(records[0].details["prepared"].size(), 1u);  // it drops out of later launches
    EXPECT_EQ(records[1].status, "passed");
  }
  const auto late = run_all({fake_case("a", "failed", "finish")}, options);
  EXPECT_EQ(late[0].status, "failed");
  EXPECT_TRUE(late[0].samples.time_s.empty());
  const auto powerless = run_all({fake_case("a", "mistrusted", "prepare")}, options);
  EXPECT_EQ(powerless[0].status, "mistrusted");
  EXPECT_EQ(slices(powerless[0]).size(), 8u);
}

TEST(Runner, ASharedChildIsReplacedForTheOthersInIt) {
  RunOptions options;
  options.launches = 2;
  const auto records =
      run_all({fake_case("a", "segfault"), with(fake_case("a"), "kernel", "mine"), fake_case("b")}, options);
  EXPECT_EQ(records[0].status, "error");
  for (size_t other : {1u, 2u}) {
    EXPECT_EQ(records[other].status, "passed");
    EXPECT_EQ(slices(records[other]).size(), 8u);
    EXPECT_EQ(records[other].details["prepared"].size(), 2u);
  }
}

TEST(Runner, KernelsAndCopiesHaveChildrenOfTheirOwn) {
  RunOptions options;
  options.launches = 1;
  const auto pid = [](const Record& record) { return record.details["prepared"][0]["pid"]; };
  const auto kernels = run_all({fake_case("a"), with(fake_case("a"), "kernel", "mine")}, options);
  EXPECT_NE(pid(kernels[0]), pid(kernels[1]));
  const auto copies = run_all({fake_case("a"), fake_case("a")}, options);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_NE(pid(copies[0]), pid(copies[1]));
  EXPECT_EQ(copies[0].group, copies[1].group);
}

TEST(Runner, LaunchesFollowTheNumberOfComparisons) {
  // One comparison at 0.001 needs 11 launches, and 15 to do without the extremes: 2 (1 + 15) / 2^15 < 0.001.
  RunOptions options;
  options.alpha = 0.001;
  options.slice_seconds = 0.001;
  const auto records = run_all({fake_case("a"), fake_case("b")}, options);
  EXPECT_EQ(records[0].details["prepared"].size(), 15u);
}

TEST(Runner, GoesOnUntilConvergedOrALimit) {
  RunOptions options;
  const Json noisy = with(with(fake_case("a"), "iteration_s", 0.01), "noise", 1.0);
  options.max_seconds = 1e-3;  // the first launches are taken all the same
  const double begin = now_seconds();
  EXPECT_EQ(run_all({noisy}, options)[0].details["prepared"].size(), 6u);
  options.max_seconds = 3 * (now_seconds() - begin);
  const Record by_time = run_all({noisy}, options)[0];
  EXPECT_EQ(by_time.stopped, "max_time");
  EXPECT_GT(by_time.details["prepared"].size(), 6u);
  EXPECT_EQ(by_time.samples.time_s.size(), 8 * by_time.details["prepared"].size());  // 2 samples x 4 rounds a launch

  options.max_seconds = 30;
  options.max_samples = 60;
  const Record by_samples = run_all({noisy}, options)[0];
  EXPECT_EQ(by_samples.stopped, "max_samples");
  EXPECT_EQ(by_samples.samples.time_s.size(), 64u);

  options.max_samples = 100000;
  options.relative_width = 0.1;
  const Record doubled = run_all({noisy}, options)[0];
  EXPECT_EQ(doubled.stopped, "converged");
  const size_t launches = doubled.details["prepared"].size();
  EXPECT_THAT((std::set<size_t>{6, 12, 24, 48, 96, 192}), Contains(launches));  // never in between
  EXPECT_GT(launches, 6u);
}

TEST(Runner, ShortIterationsAreBatched) {
  RunOptions options;
  options.launches = 1;
  const Record record = run_all({with(fake_case("a"), "iteration_s", 1e-7)}, options)[0];
  EXPECT_EQ(record.samples.batch, 782);  // 0.02 s are 200,000 iterations, in at most 256 samples
  EXPECT_EQ(slices(record).at({0, 0}).first, 256u);
}

TEST(Runner, LongIterationsStillGiveFortySamplesWhereTimeAllows) {
  RunOptions options;
  options.stopping = "fixed";
  const auto samples = [&](double max_seconds, double iteration) {
    options.max_seconds = max_seconds;
    return run_all({with(fake_case("a"), "iteration_s", iteration)}, options)[0].samples.time_s.size();
  };
  EXPECT_EQ(samples(4900, 100), 48u);  // 2 in each of 24 slices
  EXPECT_EQ(samples(4700, 100), 24u);
  EXPECT_EQ(samples(1e-3, 100), 24u);  // the first launches are always run
}

TEST(Runner, WhatDoesNotFitTogetherRunsOneAfterTheOther) {
  RunOptions options;
  options.launches = 2;
  const auto records =
      run_all({with(fake_case("a"), "memory_bytes", 1e15), with(fake_case("b"), "memory_bytes", 1e15)}, options);
  const auto a = slices(records[0]), b = slices(records[1]);
  EXPECT_EQ(a.size(), 8u);
  EXPECT_EQ(b.size(), 8u);
  EXPECT_LT(a.at({0, 3}).second, b.at({0, 0}).second);
  EXPECT_LT(b.at({0, 3}).second, a.at({1, 0}).second);
  for (const Record& record : records) {
    EXPECT_EQ(record.status, "passed");
    EXPECT_THAT(record.warnings, Contains(HasSubstr("interleaved: false")));
  }
}

TEST(Runner, BusyThreadsOfIdleChildrenAreStopped) {
  RunOptions options;
  options.launches = 1;
  const auto records = run_all({fake_case("a", "busy", "prepare"), fake_case("b", "busy", "prepare")}, options);
  for (const Record& record : records) EXPECT_EQ(record.warnings, std::vector<std::string>{});
}

TEST(Runner, RecordsComeAsGroupsEnd) {
  RunOptions options;
  options.launches = 1;
  const std::atomic<bool> never = false;
  std::vector<std::string> events;
  run_cases(
      {fake_case("a"), with(fake_case("a"), "m", 2)}, options, [&](const Record&) { events.push_back("record"); },
      [&](const Progress& p) {
        events.push_back(fmt::format("{}/{}", p.groups_done, p.groups));
        EXPECT_GE(p.seconds_left, 0);
      },
      never);
  EXPECT_EQ(events, (std::vector<std::string>{"0/2", "record", "1/2", "1/2", "record", "2/2"}));
}

TEST(Runner, InterruptionAbandonsTheGroupAndLeavesNoProcess) {
  std::atomic<bool> interrupted = false;
  std::atomic<bool> first_is_done = false;
  std::vector<Record> records;
  std::thread later([&] {
    for (int i = 0; i < 3000 && !first_is_done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the second group hangs by now
    interrupted = true;
  });
  RunOptions options;
  options.launches = 1;
  run_cases(
      {fake_case("a"), with(fake_case("a", "hang"), "m", 2), with(fake_case("b"), "m", 2)}, options,
      [&](const Record& record) {
        records.push_back(record);
        first_is_done = true;
      },
      {}, interrupted);
  later.join();
  EXPECT_EQ(records.size(), 1u);
  EXPECT_TRUE(no_child_is_left());
}

TEST(Runner, LowerDepthsPrepareOnceAndKeepTheChild) {
  RunOptions options;
  options.depth = Depth::check;
  const auto records = run_all(
      {fake_case("a"), with(fake_case("a"), "m", 2), with(fake_case("a", "failed", "prepare"), "m", 3)}, options);
  EXPECT_EQ(records[0].details["prepared"][0]["depth"], "check");
  EXPECT_EQ(records[0].details["prepared"].size(), 1u);
  EXPECT_EQ(records[0].details["prepared"][0]["pid"], records[1].details["prepared"][0]["pid"]);
  EXPECT_TRUE(records[0].samples.time_s.empty());
  EXPECT_EQ(records[2].status, "failed");
}

TEST(Runner, ChildrenGetTheirEnvironment) {
  RunOptions options;
  options.depth = Depth::build;
  const Json details =
      run_all({with(fake_case("a"), "environment", "D5_FAKE=7;OTHER=x")}, options)[0].details["prepared"][0];
  EXPECT_EQ(details["variable"], "7");
  const char* ours = std::getenv("ONEDNN_MAX_CPU_ISA");
  EXPECT_EQ(details["cap"], ours ? std::string(ours) : usable_isa().onednn_cap());
}

TEST(Options, AreReadAndChecked) {
  const RunOptions options = run_options_from({{"launches", 8}, {"slice", 0.5}, {"max_time", 4}, {"max_samples", 500}});
  EXPECT_EQ(options.launches, 8);
  EXPECT_EQ(options.slice_seconds, 0.5);
  EXPECT_EQ(options.max_seconds, 4);
  EXPECT_EQ(run_options_from(to_json(options)).max_samples, 500u);
  EXPECT_THROW(run_options_from({{"launches", "many"}}), UsageError);
  EXPECT_THROW(run_options_from({{"launches", -1}}), UsageError);
  EXPECT_THROW(run_options_from({{"alpha", 2}}), UsageError);
  try {
    run_options_from({{"launchs", 1}});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'launches'"));
  }
}

}  // namespace
}  // namespace d5
