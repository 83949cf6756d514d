// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/protocol.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "d5/runner/child.hpp"

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

// The worker printed in docs/protocol.md is run as it stands there: the page must be true.
TEST(Protocol, TheDocumentedPythonWorkerWorks) {
  const std::filesystem::path page = D5_SOURCE_DIR "/docs/protocol.md";
  std::ifstream file(page);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str(), fence = "```python\n";
  const size_t begin = all.find(fence) + fence.size();
  ASSERT_NE(all.find(fence), std::string::npos);
  if (access("/usr/bin/python3", X_OK) != 0) GTEST_SKIP() << "no /usr/bin/python3";

  ChildSettings settings;
  settings.command = {"/usr/bin/python3", "-c", all.substr(begin, all.find("```", begin) - begin)};
  Child child(settings);
  EXPECT_EQ(child.hello()["program"], "dot.py");
  const Json prepared = child.ask({{"do", "prepare"}, {"id", 3}, {"case", {{"n", 100}}}, {"depth", "measure"}});
  EXPECT_EQ(outcome_from_json(prepared).status, "passed");
  EXPECT_GT(prepared["details"]["seconds_per_iteration"], 0.0);
  const SliceResult slice =
      slice_result_from_json(child.ask({{"do", "run"}, {"id", 3}, {"samples", 4}, {"batch", 2}, {"rewarm", 1}}));
  EXPECT_EQ(slice.seconds.size(), 4u);
  EXPECT_EQ(child.fetch("a", 3).values<double>()[8], 1.0);  // 8 mod 7
  EXPECT_EQ(outcome_from_json(child.ask({{"do", "finish"}, {"id", 3}})).status, "passed");
  EXPECT_THROW(child.ask({{"do", "run"}, {"id", 9}, {"samples", 1}, {"batch", 1}, {"rewarm", 1}}), Error);
}

}  // namespace
}  // namespace d5
