// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/protocol.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace d5 {
namespace {

using testing::HasSubstr;

TEST(LineSocket, KeepsLinesApart) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  LineSocket reader(ends[0]);
  ASSERT_EQ(write(ends[1], "first\nsecond\nthi", 16), 16);
  EXPECT_EQ(reader.read_line(), "first");
  EXPECT_EQ(reader.take_line(), "second");
  EXPECT_EQ(reader.take_line(), std::nullopt);
  ASSERT_EQ(write(ends[1], "rd\n", 3), 3);
  EXPECT_EQ(reader.read_line(), "third");
  close(ends[1]);
  EXPECT_EQ(reader.read_line(), std::nullopt);
  EXPECT_THROW(reader.send({{"say", "hello"}}), Error);
}

TEST(LineSocket, ReplacesWhatIsNoText) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  LineSocket one(ends[0]), other(ends[1]);
  one.send({{"what", "bad \xff byte"}});
  EXPECT_EQ(Json::parse(*other.read_line())["what"], "bad \xef\xbf\xbd byte");
}

TEST(Messages, SurviveTheTrip) {
  const Outcome outcome = outcome_from_json(to_json(Outcome{"unsupported", "no f8", {{"x", 1}}}));
  EXPECT_EQ(outcome.status, "unsupported");
  EXPECT_EQ(outcome.reason, "no f8");
  EXPECT_EQ(outcome.details["x"], 1);
  const SliceResult slice =
      slice_result_from_json(Json::parse(to_json(SliceResult{{0.1, 1.0 / 3}, {1e9 + 0.123456789, 2}, {}}).dump()));
  EXPECT_EQ(slice.seconds[1], 1.0 / 3);  // to the last bit
  EXPECT_EQ(slice.start[0], 1e9 + 0.123456789);
}

TEST(Messages, WrongOnesAreNamed) {
  EXPECT_THROW(outcome_from_json({{"status", "fine"}, {"reason", ""}}), Error);
  EXPECT_THROW(slice_from_json({{"samples", 0}, {"batch", 1}, {"rewarm", 0}}), Error);
  try {
    slice_result_from_json({{"seconds", {1, "two"}}, {"start", {1, 2}}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'seconds'"));
  }
}

}  // namespace
}  // namespace d5
