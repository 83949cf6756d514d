// SPDX-License-Identifier: Apache-2.0
#include "fake_bench.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "d5/bench/progress.hpp"
#include "d5/core/parallel.hpp"
#include "d5/measure/clock.hpp"

namespace d5 {
namespace {

// The real signal, also under a sanitizer, which would catch a wrong address and exit with a report instead.
void segfault() {
  signal(SIGSEGV, SIG_DFL);
  raise(SIGSEGV);
}

// Pages are touched a few at a time, so that the limit is met on the way.
[[noreturn]] void allocate_for_ever() {
  for (;;) {
    constexpr size_t bytes = 8 << 20;
    std::memset(std::malloc(bytes), 1, bytes);
    usleep(5000);
  }
}

void misbehave(const std::string& does) {
  if (does == "segfault") segfault();
  if (does == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  if (does == "allocate") allocate_for_ever();
  if (does == "print")
    for (int i = 0; i < 100000; ++i) std::printf("line %d of far too much text on the standard output\n", i);
  if (does == "exit") _exit(0);
  if (does == "status") _exit(7);
  if (does == "garbage") (void)!write(3, "this is no JSON\n", 16);
  if (does == "last words") {
    std::printf("the matrix is singular\n");
    std::fflush(stdout);
    std::abort();
  }
  if (does == "throw") throw Error("[fake] did not like the case");
  if (does == "exhaust") throw std::bad_alloc();
  if (does == "busy")
    std::thread([] {
      for (volatile int i = 0;;) i = i + 1;
    }).detach();
}

class FakeSession final : public Session {
 public:
  explicit FakeSession(Json fields) : fields_(std::move(fields)) { std::srand(static_cast<unsigned>(getpid())); }

  Outcome prepare(Depth depth) override {
    report_progress("half way", 0.5);
    act("prepare");
    Outcome outcome;
    outcome.details = {
        {"threads", threads()}, {"depth", name(depth)}, {"memory_bytes", fields_.value("memory_bytes", 1000.0)}};
    outcome.details["pid"] = getpid();
    outcome.details["cap"] = std::getenv("ONEDNN_MAX_CPU_ISA") ? std::getenv("ONEDNN_MAX_CPU_ISA") : "";
    outcome.details["variable"] = std::getenv("D5_FAKE") ? std::getenv("D5_FAKE") : "";
    if (depth == Depth::measure) {
      outcome.details["seconds_per_iteration"] = fields_.value("iteration_s", 1e-4);
      outcome.details["warmup_s"] = {0.25, 0.125};
    }
    if (fields_["when"] == "prepare" && fields_["does"] != "well") set_status(outcome);
    return outcome;
  }

  SliceResult run(const Slice& slice) override {
    act("run");
    SliceResult result;
    for (int64_t i = 0; i < slice.samples; ++i) {
      result.start.push_back(now_seconds());
      // 1 % of spread around the true time, none of it slept: the runner believes what it is told.
      const double noise = fields_.value("noise", 0.01);
      result.seconds.push_back(fields_.value("iteration_s", 1e-4) *
                               (1 + noise * (std::rand() / (RAND_MAX + 1.0) - 0.5)));
    }
    result.probe = {{"rewarm", slice.rewarm}, {"pid", getpid()}};
    return result;
  }

  Outcome finish() override {
    act("finish");
    Outcome outcome;
    if (fields_["when"] == "finish") set_status(outcome);
    return outcome;
  }

  Tensor fetch(const std::string& tensor) override {
    if (tensor == "bytes") return Tensor::from<uint8_t>({3}, {1, 2, 255});
    if (tensor == "empty") return Tensor(DType::f32, {0, 4});
    if (tensor == "y") return Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6.5});
    return Session::fetch(tensor);
  }

 private:
  void act(const std::string& call) {
    if (fields_["when"] == call) misbehave(fields_["does"]);
  }
  void set_status(Outcome& outcome) {
    const std::string does = fields_["does"];
    if (does == "failed" || does == "unsupported" || does == "skipped" || does == "mistrusted") {
      outcome.status = does;
      outcome.reason = "because it is " + does;
    }
  }
  Json fields_;
};

class FakeBench final : public Bench {
 public:
  Json complete(const Json& fields) const override { return fields; }
  double memory_bytes(const Json& fields) const override { return fields.value("needs_bytes", 0.0); }
  std::unique_ptr<Session> open(const Json& fields) const override { return std::make_unique<FakeSession>(fields); }
  Record record(const CaseResult& result) const override {
    if (result.fields["does"] == "unreadable") throw Error("[fake] a number is wanted");
    Record record{.kind = "fake", .fields = result.fields, .status = result.status, .reason = result.reason};
    record.samples = result.samples;
    record.group = result.group;
    record.stopped = result.stopped;
    record.warnings = result.warnings;
    record.details = {{"prepared", result.prepared},
                      {"finished", result.finished},
                      {"probes", result.probes},
                      {"comparisons", result.comparisons}};
    return record;
  }
  std::string rerun(const Json&) const override { return "d5 fake"; }
  std::vector<std::string> compared_fields() const override { return {"backend", "does", "when", "kernel"}; }
};

}  // namespace

Json fake_case(const std::string& backend, const std::string& does, const std::string& when) {
  return {{"kind", "fake"}, {"backend", backend}, {"does", does}, {"when", when}, {"threads", 1}};
}

D5_REGISTER(benches, "fake", FakeBench);
}  // namespace d5
