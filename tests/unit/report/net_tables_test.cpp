// SPDX-License-Identifier: Apache-2.0
// The tables and the trace of networks, from made-up records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "d5/core/error.hpp"
#include "d5/report/console.hpp"
#include "d5/report/context_table.hpp"
#include "d5/report/trace.hpp"
#include "d5/report/validation_table.hpp"

namespace d5 {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

Record net_record(const std::string& kind) {
  Record r;
  r.kind = kind;
  r.fields = {{"kind", kind},   {"network", "lenet"}, {"backend", "onednn"}, {"dtype", "f32"},
              {"pass", "step"}, {"batch", 8},         {"threads", 1}};
  r.status = "passed";
  return r;
}

json node(const std::string& name, double share, const std::string& reason = "") {
  json node = {{"node", name},
               {"operator", "Conv"},
               {"pass", "forward"},
               {"value", "v"},
               {"compared", 10},
               {"elements", name == "big" ? 100 : 10},
               {"worst", 0},
               {"worst_share_of_tolerance", share},
               {"error", {{"l1", 1e-6}, {"l2", 2e-6}, {"linf", 3e-6}}}};
  if (std::isinf(share)) node["worst_share_of_tolerance"] = node["error"]["linf"] = nullptr;
  if (!reason.empty()) node["reason"] = reason;
  return node;
}

TEST(ValidationTable, WorstFirstAndTheFirstThatDeviatesBeforeAll) {
  Record r = net_record("net-validate");
  r.status = "failed";
  r.reason = "the first node that deviates is 'b'";
  r.details["nodes"] = {node("a", 0.5), node("b", 2, "off"), node("c", INFINITY, "nan"), node("big", 0.25),
                        node("d", 0.1)};
  r.details["nodes"].push_back({{"node", "s"}, {"operator", "Odd"}, {"pass", "backward"}, {"skipped", "no gradient"}});
  r.details["first"] = 1;
  const std::string text = validation_text({&r, 1}, {.top = 4});
  const auto at = [&](const std::string& word) { return text.find("\n" + word + " "); };
  EXPECT_LT(at("b"), at("c"));
  EXPECT_LT(at("c"), at("a"));
  EXPECT_LT(at("a"), at("big"));
  EXPECT_EQ(at("d"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("<- the first that deviates"));
  EXPECT_THAT(text, HasSubstr("inf"));
  EXPECT_THAT(text, HasSubstr("10*"));
  EXPECT_THAT(text, HasSubstr("and 1 values"));
  EXPECT_THAT(text, HasSubstr("not compared: s (Odd, backward): no gradient"));
  EXPECT_THAT(text, HasSubstr("failed: the first node that deviates is 'b'"));
  Record other = net_record("net-validate");
  other.status = "unsupported";
  other.reason = "no kernel";
  EXPECT_THAT(validation_text({&other, 1}), HasSubstr("unsupported: no kernel"));
}

TEST(ContextTable, RowsOthersResidualAndWhole) {
  Record r = net_record("net-context");
  const auto row = [](const char* op, double in_situ, double flops) {
    return json{{"operator", op}, {"pass", "forward"},    {"shapes", "2x3"},
                {"nodes", 2},     {"in_situ_s", in_situ}, {"flops", flops}};
  };
  json first = row("Conv", 6e-3, 75), second = row("Reorder", 2e-3, 0);
  first.update({{"hot_s", 2e-3}, {"cold_s", 4e-3}});
  second["alone"] = "a step of the executor's own";
  r.details["context"] = {{"steps", 20},        {"steps_kept", 10},
                          {"whole_s", 10e-3},   {"operators_s", 9e-3},
                          {"residual_s", 1e-3}, {"unobserved_s", 9.9e-3},
                          {"flops", 100},       {"rows", {first, second, row("Relu", 1e-3, 25)}}};
  const std::string text = context_text({&r, 1});
  EXPECT_THAT(text, testing::ContainsRegex("Conv +forward +2x3 +2 +6.00 +60.0 % +75.0 % +4.00 +1.50 +8.00 +0.75"));
  EXPECT_THAT(text, testing::ContainsRegex("Reorder .*a step of the executor's own"));
  EXPECT_THAT(text, testing::ContainsRegex("1 more kinds +2 +1.00 +10.0 % +25.0 %"));
  EXPECT_THAT(text, testing::ContainsRegex("outside of operators +1.00 +10.0 %"));
  EXPECT_THAT(text, testing::ContainsRegex("the whole step +10.00 +100.0 %"));
}

TEST(StepTable, WhatIsNotKnownHasItsReasonBelow) {
  Record r = net_record("net");
  r.metrics = {{"time", {"s", 0.010, {{0.0099, 0.0101}}, 100, 90}},
               {"throughput", {"samples/s", 800, {}, 100, 90}},
               {"latency_p50", {"s", 0.010, {{0.0099, 0.0101}}, 100, 90}},
               {"latency_p90", {"s", 0.012, {{0.0118, 0.0123}}, 100, 90}},
               {"latency_p99", {"s", NAN, {}, 0, 0}},
               {"memory_planned", {"B", 3.0 * (1 << 20), {}, 6, 6}},
               {"memory_peak", {"B", 5.0 * (1 << 20), {}, 6, 6}},
               {"energy_per_sample", {"J", NAN, {}, 0, 0}}};
  r.details["unavailable"] = {{"latency_p99", "too few"}, {"energy_per_sample", "no counter"}};
  const std::string text = console_text({&r, 1}, {});
  EXPECT_THAT(text, testing::ContainsRegex("p50 ms +p90 ms +p99 ms +planned MiB +peak MiB +J/sample"));
  EXPECT_THAT(text, testing::ContainsRegex("onednn +10.00 +12.0 +n/a +3.00 +5.00 +n/a"));
  EXPECT_THAT(text, HasSubstr("latency_p99: unavailable: too few"));
  EXPECT_THAT(text, HasSubstr("energy_per_sample: unavailable: no counter"));
  EXPECT_THAT(text.substr(0, text.find("one step")), Not(HasSubstr("latency")));
}

class TraceTest : public ::testing::Test {
 protected:
  std::string path_ = ::testing::TempDir() + "/d5-trace-" + std::to_string(getpid()) + ".json";
  ~TraceTest() override { std::filesystem::remove(path_); }
  json read() {
    std::ifstream file(path_);
    return json::parse(file);
  }
};

TEST_F(TraceTest, IsWholeAfterEveryCall) {
  std::ofstream(path_) << std::string(10000, 'x');  // what was there before is gone
  TraceFile file(path_);
  EXPECT_EQ(read().at("traceEvents").size(), 0u);
  for (size_t n = 1; n <= 5; ++n) {
    file.add({{{"name", "\"quoted\"\n"}, {"n", n}}, {{"name", "b"}}});
    EXPECT_EQ(read().at("traceEvents").size(), 2 * n);
  }
  file.add({});
  EXPECT_EQ(read().at("traceEvents")[8].at("n"), 5);
  EXPECT_THROW(TraceFile("/no/such/folder/trace.json"), Error);
}

TEST_F(TraceTest, SpansStayNestedWhenTheyAreRounded) {
  const double origin = 12345.678901234;
  std::vector<TraceSpan> spans{{.name = "step", .category = "executor", .begin_s = origin, .end_s = origin + 3e-3}};
  for (int i = 0; i < 1000; ++i)
    spans.push_back(
        {.name = "n", .category = "operator", .begin_s = origin + i * 3e-6 + 1e-10, .end_s = origin + (i + 1) * 3e-6});
  spans.push_back({.name = "g", .category = "instant", .begin_s = origin + 3e-3, .end_s = origin + 3e-3, .thread = 2});
  const auto events = trace_events(spans, origin, 7, "lenet");
  double last = 0;
  size_t operators = 0;
  for (const json& event : events) {
    EXPECT_EQ(event.at("pid"), 7);
    if (event.at("ph") != "X" || event.at("cat") != "operator") continue;
    EXPECT_GE(event.at("ts").get<double>(), last);
    last = event.at("ts").get<double>() + event.at("dur").get<double>();
    EXPECT_LE(last, 3000.0005);
    ++operators;
  }
  EXPECT_EQ(operators, 1000u);
  EXPECT_EQ(events.back().at("ph"), "i");
  TraceFile(path_).add(events);
  const auto again = read_trace_events(path_, 3, "other");
  ASSERT_EQ(again.size(), events.size());
  EXPECT_EQ(again[0].at("args").at("name"), "other");
  EXPECT_EQ(again.back().at("pid"), 3);
  std::ofstream(path_) << "{}";
  EXPECT_THROW(read_trace_events(path_, 1, ""), Error);
}

}  // namespace
}  // namespace d5
