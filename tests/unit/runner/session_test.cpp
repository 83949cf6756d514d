// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "d5/runner/pool.hpp"
#include "fake_bench.hpp"

namespace d5 {
namespace {

TEST(Limits, RanksNameALostOneBeforeTheirChildIsTakenForHung) {
  const Bench& train = bench_of({{"kind", "train"}});
  for (const Json& own : {Json::object(), Json{{"rank_limit", 1000.0}}}) {
    Json given = {{"kind", "train"}, {"network", "mlp"}, {"ranks", 2}, {"communicator", "mpi"}};
    given.update(own);
    const Json fields = train.complete(given);
    const double rank_limit = fields.at("rank_limit");
    EXPECT_GE(limits_of(fields, {}).seconds, 2 * rank_limit + 60);
    EXPECT_GE(limits_of(fields, {.seconds = 5}).seconds, 2 * rank_limit + 60);
    EXPECT_GT(limits_of(fields, {}).cancel_seconds, 5);  // mpirun has as long to end its ranks
  }
  const Json alone = train.complete({{"kind", "train"}, {"network", "mlp"}});
  EXPECT_EQ(limits_of(alone, {.seconds = 5}).seconds, 5);
}

TEST(Depth, NamesGoBothWays) {
  for (const std::string text : {"list", "build", "check", "measure"}) EXPECT_EQ(name(parse_depth(text)), text);
  EXPECT_LT(Depth::list, Depth::build);
  EXPECT_LT(Depth::check, Depth::measure);
  try {
    parse_depth("mesure");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean 'measure'"));
  }
}

TEST(BenchOf, FindsByKind) {
  EXPECT_EQ(bench_of(fake_case("a")).rerun({}), "d5 fake");
  EXPECT_THROW(bench_of({{"operator", "Gemm"}}), UsageError);
}

TEST(Session, HasNothingToFetchByDefault) {
  EXPECT_THROW(bench_of(fake_case("a")).open(fake_case("a"))->fetch("nothing"), Error);
}

}  // namespace
}  // namespace d5
