// SPDX-License-Identifier: Apache-2.0
// Workers in another language: workers/fake.py adds two tensors, well or badly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "d5/measure/clock.hpp"
#include "d5/runner/foreign_workers.hpp"
#include "d5/runner/runner.hpp"

namespace d5 {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class Foreign : public testing::Test {
 protected:
  void SetUp() override { setenv("D5_WORKER_PATH", D5_SOURCE_DIR "/tests/unit/runner/workers", 1); }
  void TearDown() override {
    unsetenv("D5_WORKER_PATH");
    EXPECT_TRUE(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD) << "a child is left";
  }
};

Json sum(const std::string& backend, const std::string& pass = "forward") {
  return bench_of({{"kind", "op"}})
      .complete({{"operator", "Add"}, {"backend", backend}, {"a", "4x5"}, {"b", "4x5"}, {"pass", pass}});
}

std::vector<Record> run_all(const std::vector<Json>& cases, RunOptions options) {
  std::vector<Record> records;
  const std::atomic<bool> never = false;
  run_cases(
      cases, options, [&](const Record& record) { records.push_back(record); }, {}, never);
  return records;
}

RunOptions once(Depth depth = Depth::measure) {
  RunOptions options;
  options.depth = depth;
  options.launches = 1;
  options.slice_seconds = 0.002;
  options.max_seconds = 0;
  return options;
}

TEST_F(Foreign, IsCheckedTimedAndBoundedLikeOurOwn) {
  for (const std::string pass : {"forward", "backward"}) {
    const auto records = run_all({sum("reference", pass), sum("fake-right", pass)}, once());
    ASSERT_EQ(records.size(), 2u);
    const Record& foreign = records[1];
    EXPECT_EQ(foreign.status, "passed") << foreign.reason;
    EXPECT_EQ(foreign.details["check"]["elements"], pass == "forward" ? 20 : 40);
    EXPECT_EQ(foreign.details["integer_check"]["linf"], 0.0);
    EXPECT_EQ(foreign.details["after"]["repeatable"], true);
    EXPECT_EQ(foreign.details["kernels"]["Add"], "a loop");
    EXPECT_EQ(foreign.details["backend"]["library"], "plain Python");
    ASSERT_TRUE(foreign.bound.has_value());
    EXPECT_GT(foreign.bound->share, 0);
    EXPECT_EQ(foreign.samples.time_s.size(), foreign.samples.start_s.size());
    EXPECT_GT(foreign.samples.time_s.size(), 4u);
    EXPECT_EQ(foreign.group, records[0].group);
    EXPECT_EQ(kill(foreign.details["worker"]["pid"].get<int>(), 0), -1) << "the worker is left";
  }
}

TEST_F(Foreign, WhatIsWrongIsNamed) {
  struct Expected {
    std::string does, status, reason;
  };
  for (const Expected& e : std::vector<Expected>{
           {"wrong", "failed", "exact pass on small integers: y0[3] is"},
           {"late", "failed", "after the measurement: y0[3] is"},
           {"shape", "failed", "y0 is f32[5x4], expected f32[4x5]"},
           {"dtype", "failed", "y0 is f64[4x5], expected f32[4x5]"},
           {"short", "error", "76 bytes came for f32[4x5], which has 80"},
           {"crash", "error", "[worker] fake-crash: [child] killed by SIGSEGV (Segmentation fault) (asked to run)"},
           {"exit", "error", "[worker] fake-exit: [child] exited with status 3 (asked to start)"},
           {"garbage", "error", "no JSON object: Warning: this is deprecated"},
           {"times", "error", "-1 s came as the time of an iteration"},
           {"raises", "error", "[fake.py] ValueError: no such luck"},
           {"unavailable", "unsupported", "there is no sun; ask your neighbour"},
           {"unsupported", "unsupported", "only sums, and none today"}}) {
    const auto records = run_all({sum("fake-" + e.does), sum("reference")}, once());
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(records[0].status, e.status) << e.does;
    EXPECT_THAT(records[0].reason, HasSubstr(e.reason)) << e.does;
    EXPECT_TRUE(records[0].samples.time_s.empty()) << e.does;
    EXPECT_EQ(records[1].status, "passed") << records[1].reason;
    if (e.does == "crash") {
      EXPECT_THAT(records[0].warnings, Contains(HasSubstr("something is rotten")));
    }
    if (e.does == "exit") {
      EXPECT_THAT(records[0].warnings, Contains(HasSubstr("the license has expired")));
    }
  }
}

// Sums that are rounded to bf16 one by one are right where the worker says that it does so, and wrong where it does
// not.
TEST_F(Foreign, NarrowArithmeticIsJudgedByWhatTheWorkerSays) {
  const auto sums = [](const std::string& backend) {
    return bench_of({{"kind", "op"}})
        .complete({{"operator", "Sum"}, {"backend", backend}, {"count", 4}, {"shape", "20x20"}, {"dtype", "bf16"}});
  };
  const auto records = run_all({sums("fake-narrow"), sums("fake-silent")}, once(Depth::check));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].status, "passed") << records[0].reason;
  EXPECT_EQ(records[0].details["narrow_arithmetic"], "every sum is stored in bf16");
  EXPECT_FALSE(records[0].details["worker"].contains("narrow_arithmetic"));
  EXPECT_EQ(records[1].status, "failed");
  EXPECT_THAT(records[1].reason, HasSubstr("expected"));
  EXPECT_FALSE(records[1].details.contains("narrow_arithmetic"));
}

TEST_F(Foreign, LimitsHold) {
  RunOptions options = once();
  options.limits.seconds = 4;
  const double begin = now_seconds();
  const auto hang = run_all({sum("fake-hang"), sum("fake-right")}, options);
  EXPECT_THAT(hang[0].reason, HasSubstr("no answer within 4 s"));
  EXPECT_EQ(hang[1].status, "passed") << hang[1].reason;
  EXPECT_LT(now_seconds() - begin, 30);

  options = once();
  options.limits.memory_bytes = 1'000'000'000;
  EXPECT_THAT(run_all({sum("fake-memory")}, options)[0].reason, HasSubstr("outgrew its memory limit of 0.9 GiB"));
}

TEST_F(Foreign, IsStoppedWhileOthersRun) {
  for (const Record& record : run_all({sum("fake-busy"), sum("fake-right")}, once())) {
    EXPECT_EQ(record.status, "passed") << record.reason;
    EXPECT_THAT(record.warnings, Not(Contains(HasSubstr("while it was stopped"))));
  }
}

TEST_F(Foreign, OneProcessServesManyCases) {
  Json other = sum("fake-right");
  other["seed"] = 2;
  const auto records = run_all({sum("fake-right"), other}, once(Depth::check));
  EXPECT_EQ(records[0].status, "passed");
  EXPECT_EQ(records[1].status, "passed");
  EXPECT_EQ(records[0].details["worker"]["pid"], records[1].details["worker"]["pid"]);
}

TEST_F(Foreign, AnInterpreterThatIsNotThere) {
  setenv("D5_PYTHON_FAKE", "/no/such/python", 1);
  const auto records = run_all({sum("fake-right")}, once(Depth::check));
  unsetenv("D5_PYTHON_FAKE");
  EXPECT_EQ(records[0].status, "unsupported");
  EXPECT_EQ(records[0].reason, "/no/such/python of D5_PYTHON_FAKE cannot be executed; ask your neighbour");
}

class Folder {
 public:
  Folder() {
    std::string pattern = fs::temp_directory_path() / "d5-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return path_ / name;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

ForeignWorker found(const std::string& name) {
  for (const ForeignWorker& worker : foreign_workers())
    if (worker.status.name == name) return worker;
  return {};
}

// The worker printed in docs/protocol.md is run as it stands there: the page must be true.
TEST(Workers, TheDocumentedOneWorks) {
  std::stringstream text;
  text << std::ifstream(D5_SOURCE_DIR "/docs/protocol.md").rdbuf();
  const auto block = [all = text.str()](const std::string& language) {
    const std::string fence = "```" + language + "\n";
    const size_t begin = all.find(fence) + fence.size();
    return all.substr(begin, all.find("```", begin) - begin);
  };
  const Folder folder;
  folder.write("sum.toml", block("toml"));
  folder.write("sum.py", block("python"));
  setenv("D5_WORKER_PATH", folder.path().c_str(), 1);
  const Json fields =
      bench_of({{"kind", "op"}})
          .complete({{"operator", "Add"}, {"backend", "sum"}, {"a", "9"}, {"b", "9"}, {"dtype", "f64"}});
  const Record record = run_all({fields}, once())[0];
  unsetenv("D5_WORKER_PATH");
  EXPECT_EQ(record.status, "passed") << record.reason;
  EXPECT_EQ(record.details["check"]["elements"], 9);
}

TEST(Workers, ABadDescriptionIsOffAndTheOthersStay) {
  const Folder folder;
  folder.write("a.toml", "program = \"a.py\nbackends = 3");
  folder.write("b.toml", "program = \"b\"\nprogramme = \"c\"\n[backends]\nb = \"b\"");
  folder.write("c.toml", "program = \"c\"");
  folder.write("d.toml", "program = \"d\"\ninstall = \"build d\"\n[backends]\ndee = \"d\"");
  setenv("D5_WORKER_PATH", folder.path().c_str(), 1);
  EXPECT_THAT(found("a").status.reason, HasSubstr("a.toml: line 1"));
  EXPECT_THAT(found("b").status.reason, HasSubstr("did you mean 'program'"));
  EXPECT_THAT(found("c").status.reason, HasSubstr("at least one name under [backends]"));
  EXPECT_THAT(found("dee").status.reason, HasSubstr("/d is not there or cannot be executed; build d"));
  EXPECT_FALSE(found("dee").status.available);
  EXPECT_EQ(found("pytorch").status.name, "pytorch");  // ours is found, too

  fs::permissions(folder.write("d", "#!/bin/sh\n"), fs::perms::owner_all);
  EXPECT_TRUE(found("dee").status.available);
  EXPECT_EQ(found("dee").command, (std::vector<std::string>{folder.path() / "d", "dee"}));
  unsetenv("D5_WORKER_PATH");
}

TEST(Workers, PackagesAreLookedForWhereTheInterpreterDoes) {
  const Folder folder;
  const fs::path python = folder.write("venv/bin/python3", "");
  folder.write("venv/pyvenv.cfg", "include-system-site-packages = false\n");
  folder.write("venv/lib/python3.11/site-packages/d5_first/__init__.py", "");
  folder.write("venv/lib/python3.11/site-packages/d5_second.py", "");
  folder.write("elsewhere/d5_third.py", "");
  EXPECT_TRUE(has_package(python, "d5_first"));
  EXPECT_TRUE(has_package(python, "d5_second"));
  EXPECT_FALSE(has_package(python, "d5_third"));
  const char* before = getenv("PYTHONPATH");
  const std::string kept = before ? before : "";
  setenv("PYTHONPATH", (folder.path() / "elsewhere").c_str(), 1);
  EXPECT_TRUE(has_package(python, "d5_third"));
  before ? setenv("PYTHONPATH", kept.c_str(), 1) : unsetenv("PYTHONPATH");

  folder.write("in-place/d5_fourth.py", "");
  EXPECT_FALSE(has_package(python, "d5_fourth"));
  folder.write("venv/lib/python3.11/site-packages/in-place.pth",
               "# not a folder\nimport sys\n" + (folder.path() / "in-place").string() + "\n");
  EXPECT_TRUE(has_package(python, "d5_fourth"));
}

TEST(Workers, PackagesOfThePythonBehindAShimAreFound) {
  const Folder folder;
  const fs::path shim = folder.write("pyenv/shims/python3", "");
  for (const char* version : {"3.11.7", "3.12.1"})
    fs::permissions(folder.write(fmt::format("pyenv/versions/{}/bin/python3", version), "#!/bin/sh\n"),
                    fs::perms::owner_all);
  folder.write("pyenv/versions/3.11.7/lib/python3.11/site-packages/d5_older.py", "");
  folder.write("pyenv/versions/3.12.1/lib/python3.12/site-packages/d5_newer.py", "");
  folder.write("pyenv/version", "3.11.7\n");
  const char* before = getenv("PYENV_VERSION");
  const std::string kept = before ? before : "";
  unsetenv("PYENV_VERSION");
  EXPECT_TRUE(has_package(shim, "d5_older"));
  EXPECT_FALSE(has_package(shim, "d5_newer"));
  setenv("PYENV_VERSION", "3.12.1:3.11.7", 1);
  EXPECT_TRUE(has_package(shim, "d5_newer"));
  before ? setenv("PYENV_VERSION", kept.c_str(), 1) : unsetenv("PYENV_VERSION");
}

}  // namespace
}  // namespace d5
