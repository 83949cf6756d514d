// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/child.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "d5/measure/clock.hpp"
#include "fake_bench.hpp"

namespace d5 {
namespace {

using testing::HasSubstr;

ChildSettings settings(std::vector<std::string> command = {"/proc/self/exe", "worker"}) {
  ChildSettings s;
  s.command = std::move(command);
  return s;
}

Json prepare(const Json& fields, int id = 0) {
  return {{"do", "prepare"}, {"id", id}, {"case", fields}, {"depth", "measure"}};
}
Json run(int64_t samples, int id = 0) {
  return {{"do", "run"}, {"id", id}, {"samples", samples}, {"batch", 1}, {"rewarm", 1}};
}

ChildLost lost(Child& child, const Json& request) {
  try {
    child.ask(request);
  } catch (const ChildLost& error) {
    return error;
  }
  return {"it lives", ""};
}

TEST(Child, SaysHello) {
  Child child(settings());
  EXPECT_EQ(child.hello()["protocol"], 1);
  EXPECT_EQ(child.hello()["program"], "d5");
  EXPECT_EQ(child.hello()["pid"], child.pid());
  EXPECT_EQ(getpgid(child.pid()), child.pid());
}

TEST(Child, MeasuresACase) {
  Child child(settings());
  std::vector<Json> notices;
  const Json prepared = child.ask(prepare(fake_case("a")), [&](const Json& message) { notices.push_back(message); });
  EXPECT_EQ(prepared["status"], "passed");
  EXPECT_EQ(prepared["details"]["depth"], "measure");
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0]["fraction"], 0.5);
  const Json ran = child.ask(run(5));
  EXPECT_EQ(ran["seconds"].size(), 5u);
  EXPECT_EQ(ran["start"].size(), 5u);
  EXPECT_LT(ran["start"][0].get<double>(), now_seconds());  // one clock for all processes of a machine
  EXPECT_GT(ran["start"][0].get<double>(), now_seconds() - 60);
  EXPECT_EQ(child.ask({{"do", "finish"}, {"id", 0}})["status"], "passed");
}

TEST(Child, HoldsSeveralCases) {
  Child child(settings());
  Json slow = fake_case("a");
  slow["iteration_s"] = 2.0;
  child.ask(prepare(fake_case("a"), 0));
  child.ask(prepare(slow, 1));
  EXPECT_LT(child.ask(run(1, 0))["seconds"][0], 1.0);
  EXPECT_GT(child.ask(run(1, 1))["seconds"][0], 1.0);
}

TEST(Child, AnErrorLeavesItAlive) {
  Child child(settings());
  const auto words_of = [&](const Json& request) -> std::string {
    try {
      child.ask(request);
    } catch (const ChildLost&) {
      return "lost";
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(words_of(prepare(fake_case("a", "throw", "prepare"))), "[fake] did not like the case");
  EXPECT_THAT(words_of(prepare(fake_case("a", "exhaust", "prepare"))), HasSubstr("out of memory"));
  const Json cannot = child.ask(prepare(fake_case("a", "cannot", "prepare")));
  EXPECT_EQ(cannot["status"], "unsupported");
  EXPECT_EQ(cannot["reason"], "[fake] such a case cannot be run here");
  EXPECT_THAT(words_of(prepare({{"kind", "fakes"}})), HasSubstr("did you mean 'fake'"));
  EXPECT_THAT(words_of(run(1, 5)), HasSubstr("case 5 is not prepared"));
  child.ask(prepare(fake_case("a")));
  EXPECT_THAT(words_of(run(0)), HasSubstr("at least 1"));
  EXPECT_EQ(child.ask(run(1))["seconds"].size(), 1u);
}

TEST(Child, FetchesTensors) {
  Child child(settings());
  child.ask(prepare(fake_case("a")));
  const Tensor y = child.fetch("y");
  EXPECT_EQ(y.dtype(), DType::f32);
  EXPECT_EQ(y.shape(), Shape({2, 3}));
  EXPECT_THAT(y.values<float>(), testing::ElementsAre(1, 2, 3, 4, 5, 6.5));
  EXPECT_THAT(child.fetch("bytes").values<uint8_t>(), testing::ElementsAre(1, 2, 255));
  EXPECT_EQ(child.fetch("empty").elements(), 0);
  EXPECT_THROW(child.fetch("z"), Error);
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_THAT(entry.path().string(), testing::Not(HasSubstr("/d5-"))) << "a file was left behind";
}

TEST(Child, EnvironmentAndAffinityAreSetBeforeExec) {
  ChildSettings s = settings();
  s.environment = {{"D5_FAKE", "set before exec"}};
  cpu_set_t ours;
  sched_getaffinity(0, sizeof ours, &ours);
  int last = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &ours)) last = core;
  s.cores = {last};
  Child child(s);
  EXPECT_EQ(child.ask(prepare(fake_case("a")))["details"]["variable"], "set before exec");
  cpu_set_t theirs;
  sched_getaffinity(child.pid(), sizeof theirs, &theirs);
  EXPECT_EQ(CPU_COUNT(&theirs), 1);
  EXPECT_TRUE(CPU_ISSET(last, &theirs));
}

TEST(Child, DeathsAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases{{"segfault", "killed by SIGSEGV (Segmentation fault)"},
                                                               {"exit", "exited with status 0"},
                                                               {"status", "exited with status 7"},
                                                               {"garbage", "no JSON object: this is no JSON"}};
  for (const auto& [does, words] : cases) {
    Child child(settings());
    EXPECT_THAT(lost(child, prepare(fake_case("a", does, "prepare"))).what(), HasSubstr(words));
    EXPECT_THAT(lost(child, run(1)).what(), HasSubstr("not running"));
  }
}

TEST(Child, LastWordsComeWithTheError) {
  Child child(settings());
  const ChildLost error = lost(child, prepare(fake_case("a", "last words", "prepare")));
  EXPECT_THAT(error.what(), HasSubstr("SIGABRT"));
  EXPECT_THAT(error.output(), HasSubstr("the matrix is singular"));
}

TEST(Child, HangsEndAtTheLimit) {
  ChildSettings s = settings();
  s.limits.seconds = 0.3;
  Child child(s);
  const double begin = now_seconds();
  EXPECT_THAT(lost(child, prepare(fake_case("a", "hang", "prepare"))).what(), HasSubstr("no answer within 0.3 s"));
  EXPECT_LT(now_seconds() - begin, 2);
}

TEST(Child, MemoryEndsAtTheLimit) {
  ChildSettings s = settings();
  s.limits.memory_bytes = 700'000'000;
  Child child(s);
  EXPECT_THAT(lost(child, prepare(fake_case("a", "allocate", "prepare"))).what(),
              HasSubstr("outgrew its memory limit of 0.7 GiB"));
}

TEST(Child, PrintingDoesNotBlockOrBreakIt) {
  Child child(settings());
  EXPECT_EQ(child.ask(prepare(fake_case("a", "print", "prepare")))["status"], "passed");
}

TEST(Child, BadGreetingsAreRefused) {
  const auto greeting = [](const std::string& kind) -> std::string {
    try {
      Child child(settings({"/proc/self/exe", "foreign", kind}));
    } catch (const ChildLost& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(greeting("silent"), HasSubstr("exited with status 0"));
  EXPECT_THAT(greeting("stranger"), HasSubstr("good morning"));
  EXPECT_THAT(greeting("future"), HasSubstr("speaks protocol 99; 1 is wanted"));
  EXPECT_THAT(greeting("endless"), HasSubstr("longer than 64 MiB"));
}

TEST(Child, AProgramThatIsNotThereIsNamed) {
  try {
    Child child(settings({"/no/such/program"}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[child] cannot execute /no/such/program: No such file or directory");
  }
}

TEST(Child, SpendsNothingWhileStopped) {
  Child child(settings());
  child.ask(prepare(fake_case("a", "busy", "prepare")));  // leaves a thread that computes for ever
  const double begin = child.cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double running = child.cpu_seconds() - begin;
  child.stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(child.idle_cpu_seconds(), 0.005);
  EXPECT_GT(running, 0.02);
  EXPECT_EQ(child.ask(run(1))["seconds"].size(), 1u);  // resumed by itself
  EXPECT_LT(child.idle_cpu_seconds(), 0.005);
}

TEST(Child, EndsWithItsObjectAlsoWhenStopped) {
  pid_t pid;
  {
    Child child(settings());
    child.stop();
    pid = child.pid();
    EXPECT_GT(child.peak_memory_bytes(), 1'000'000u);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(Child, InterruptionEndsTheRequest) {
  std::atomic<bool> interrupted = false;
  ChildSettings s = settings();
  s.interrupted = &interrupted;
  Child child(s);
  const pid_t pid = child.pid();
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    interrupted = true;
  });
  EXPECT_THAT(lost(child, prepare(fake_case("a", "hang", "prepare"))).what(), HasSubstr("interrupted"));
  later.join();
  EXPECT_EQ(kill(pid, 0), -1);
}

}  // namespace
}  // namespace d5
