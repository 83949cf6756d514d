// SPDX-License-Identifier: Apache-2.0
#include "d5/bench/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_bench.hpp"

namespace d5 {
namespace {

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
