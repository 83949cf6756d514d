// SPDX-License-Identifier: Apache-2.0
#include "d5/training/search.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <set>

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = SearchMethod::Next::Kind;

// Runs a method to its end, one trial at a time.
template <class Cost>
std::vector<Trial> run(const std::string& method, const SearchSettings& settings, Cost cost) {
  const auto search = make_search(method, settings);
  std::vector<Trial> trials;
  for (;;) {
    const auto next = search->next(trials);
    if (next.kind != Kind::trial) {
      EXPECT_EQ(next.kind, Kind::done);
      return trials;
    }
    trials.push_back({next.point, next.budget, {}});
    trials.back().cost = cost(trials.back());
  }
}

double bowl(const Trial& trial) { return std::pow(trial.point[0] - 0.3, 2) + std::pow(trial.point[1] - 0.8, 2); }

double least(const std::vector<Trial>& trials) {
  double best = std::numeric_limits<double>::infinity();
  for (const Trial& trial : trials) best = std::min(best, *trial.cost);
  return best;
}

TEST(Search, GridHasEveryCombinationAndTheEnds) {
  const auto trials = run("grid", {.space = {{.choices = 2}, {}}, .values = {{"levels", int64_t{3}}}},
                          [](const Trial&) { return 0.0; });
  ASSERT_EQ(trials.size(), 6u);
  EXPECT_THAT(trials[0].point, ElementsAre(0.25, 0));
  EXPECT_THAT(trials[1].point, ElementsAre(0.25, 0.5));
  EXPECT_THAT(trials[2].point, ElementsAre(0.25, 1));
  EXPECT_THAT(trials[5].point, ElementsAre(0.75, 1));
}

TEST(Search, RandomPointsAreThoseOfTheSeed) {
  const SearchSettings settings{.space = {{}, {.choices = 3}}, .trials = 50, .seed = 7};
  const auto a = run("random", settings, [](const Trial&) { return 0.0; });
  const auto b = run("random", settings, [](const Trial&) { return 1.0; });
  ASSERT_EQ(a.size(), 50u);
  std::set<double> choices;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].point, b[i].point);
    choices.insert(a[i].point[1]);
  }
  EXPECT_THAT(choices, ElementsAre(0.5 / 3, 0.5, 2.5 / 3));
}

// The numbers of Li et al. (2018), section 3, for a longest training of 81 units and eta = 3.
TEST(Search, HyperbandHasThePublishedBrackets) {
  const auto trials = run("hyperband", {.space = {{}}, .values = {{"eta", 3.0}, {"least", 1.0 / 81}}},
                          [](const Trial& trial) { return trial.point[0]; });
  std::vector<std::pair<int, int>> rungs;  // trials, length of 81
  for (const Trial& trial : trials) {
    const int length = static_cast<int>(std::lround(trial.budget * 81));
    if (rungs.empty() || rungs.back().second != length) rungs.push_back({0, length});
    ++rungs.back().first;
  }
  // Brackets end with 81 and begin shorter; the last two meet at 81: 2 of the fourth and 5 of the fifth.
  const std::vector<std::pair<int, int>> expected{{81, 1}, {27, 3}, {9, 9},  {3, 27}, {1, 81}, {34, 3}, {11, 9},
                                                  {3, 27}, {1, 81}, {15, 9}, {5, 27}, {1, 81}, {8, 27}, {7, 81}};
  EXPECT_EQ(rungs, expected);
}

TEST(Search, HalvingPromotesTheBestAndWaitsForAll) {
  const SearchSettings settings{.space = {{}}, .trials = 9};
  const auto trials = run("halving", settings, [](const Trial& trial) { return std::abs(trial.point[0] - 0.4); });
  ASSERT_EQ(trials.size(), 13u);
  EXPECT_NEAR(trials[0].budget, 1.0 / 9, 1e-12);
  EXPECT_NEAR(trials[9].budget, 1.0 / 3, 1e-12);
  EXPECT_EQ(trials[12].budget, 1);
  std::vector<Trial> first(trials.begin(), trials.begin() + 9);
  std::ranges::sort(first, {}, [](const Trial& trial) { return *trial.cost; });
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(trials[9 + i].point, first[i].point);
  EXPECT_EQ(trials[12].point, first[0].point);

  std::vector<Trial> waiting(trials.begin(), trials.begin() + 9);
  waiting[4].cost.reset();
  EXPECT_EQ(make_search("halving", settings)->next(waiting).kind, Kind::wait);
}

// Rungs of a third each, 1/9, 1/3 and the whole length: floor(8 / 3) = 2, floor(8 / 9) = 0, but one always wins.
TEST(Search, HalvingAlwaysHasAWinnerOfTheWholeLength) {
  const auto lengths = [](Index count) {
    std::vector<int> ninths;
    for (const Trial& trial :
         run("halving", {.space = {{}}, .trials = count}, [](const Trial& t) { return t.point[0]; }))
      ninths.push_back(static_cast<int>(std::lround(9 * trial.budget)));
    return ninths;
  };
  EXPECT_THAT(lengths(8), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 9));
  EXPECT_THAT(lengths(3), ElementsAre(1, 1, 1, 3, 9));
  EXPECT_THAT(lengths(2), ElementsAre(1, 1, 9));
  EXPECT_THAT(lengths(1), ElementsAre(1, 9));
}

// Over 20 seeds, the best of 40 trials: what looks at results must be better than what does not. Without a difference
// 15 wins of 20 would be seen once in 48 times.
TEST(Search, MethodsThatLearnBeatChance) {
  for (const char* method : {"tpe", "evolution"}) {
    int wins = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const SearchSettings settings{.space = {{}, {}}, .trials = 40, .seed = seed};
      wins += least(run(method, settings, bowl)) < least(run("random", settings, bowl));
    }
    EXPECT_GE(wins, 15) << method;
  }
}

// The right one of four choices would be a quarter of 100 trials by chance, 38 or more once in 400 times.
TEST(Search, ChoicesThatAreBetterAreTriedMoreOften) {
  for (const char* method : {"tpe", "evolution"}) {
    int good = 0;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const SearchSettings settings{.space = {{.choices = 4, .ordered = false}, {}}, .trials = 40, .seed = seed};
      const auto trials = run(method, settings, [&](const Trial& trial) {
        return choice_of(settings.space[0], trial.point[0]) == 2 ? 0.0 : 1.0;
      });
      for (size_t i = 20; i < 40; ++i) good += *trials[i].cost == 0;
    }
    EXPECT_GE(good, 38) << method;
  }
}

TEST(Search, FailedAndRunningTrialsAreNoReasonToStop) {
  for (const char* method : {"tpe", "evolution"}) {
    const SearchSettings settings{.space = {{}, {}}, .trials = 20};
    const auto failed = run(method, settings, [](const Trial&) { return std::numeric_limits<double>::infinity(); });
    EXPECT_EQ(failed.size(), 20u) << method;
    const auto search = make_search(method, settings);
    std::vector<Trial> running(12, Trial{{0.5, 0.5}, 1, {}});
    EXPECT_EQ(search->next(running).kind, Kind::trial) << method;
  }
}

TEST(Search, WhatIsWrongIsNamed) {
  const auto message = [](const std::string& method, const SearchSettings& settings) -> std::string {
    try {
      make_search(method, settings);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message("tqe", {.space = {{}}}), HasSubstr("tpe"));
  EXPECT_THAT(message("grid", {.space = {{}}, .values = {{"level", int64_t{3}}}}), HasSubstr("levels"));
  EXPECT_THAT(message("grid", {.space = {{}, {}}, .trials = 10}), HasSubstr("25 combinations, but only 10"));
  EXPECT_THAT(message("random", {.space = {}}), HasSubstr("nothing to search"));
  EXPECT_THAT(message("halving", {.space = {{}}, .values = {{"eta", 1.0}}}), HasSubstr("eta is 1"));
  EXPECT_THAT(message("hyperband", {.space = {{}}, .trials = 12}), HasSubstr("legal: 0 (--trials 0)"));
}

}  // namespace
}  // namespace d5
