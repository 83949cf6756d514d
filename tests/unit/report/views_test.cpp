// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "d5/report/console.hpp"
#include "d5/report/csv.hpp"
#include "d5/report/number_text.hpp"
#include "d5/report/text_table.hpp"
#include "golden.hpp"
#include "sample_records.hpp"

namespace d5 {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Console, TheApprovedTable) {
  Record environment = sample_environment();
  environment.warnings = {"cores shared: two threads run at 1.10x the rate of one"};
  expect_golden("console.txt", console_text(sample_table(), {&environment, 1}));
}

TEST(Console, OneCaseWithoutAMachine) {
  const Record record = sample_record("onednn", 1024, 0.01462);
  const std::string text = console_text({&record, 1}, {});
  EXPECT_EQ(text,
            "Gemm f32 forward, 1 thread\n"
            "m 1024, n 1024, k 1024, cache hot\n"
            "backend  median ms         95 % CI  GFLOP/s  of bound    error\n"
            "onednn       14.62  14.58 .. 14.71    146.9      89 %  3.1e-06\n");
}

TEST(Console, ColourOnlyWhereAsked) {
  const std::vector<Record> records = sample_table();
  EXPECT_THAT(console_text(records, {}), Not(HasSubstr("\x1b")));
  const std::string text = console_text(records, {}, {.colour = true, .verdicts = {}});
  EXPECT_THAT(text, HasSubstr("\x1b[31mfailed"));
}

TEST(Console, NumbersAreNeverCutAndTextCannotSteerTheTerminal) {
  Record r = sample_record("a_backend_with_a_very_long_name_that_goes_on", 1024, 123456.789);
  r.fields["shape"] = "1x2";
  Record other = sample_record("b", 64, 1e-9);
  other.reason = "line one\nline two \x1b[2J";
  other.status = "error";
  const std::string text = console_text(std::vector<Record>{r, other}, {});
  EXPECT_THAT(text, HasSubstr("a_backend_with_a_very_long_name_that_goes_on"));
  EXPECT_THAT(text, HasSubstr("error: line one line two  [2J"));
}

TEST(Console, MetricsOfOtherLevelsAreShown) {
  Record r;
  r.kind = "train";
  r.fields = {{"network", "lenet"}, {"backend", "onednn"}};
  r.status = "passed";
  r.metrics = {{"test_accuracy", {"1", 0.9912, {{0.9905, 0.9921}}, 6, 6}}, {"epochs", {"epochs", 5}}};
  EXPECT_EQ(console_text({&r, 1}, {}),
            "lenet\n"
            "backend  test_accuracy       epochs\n"
            "onednn          0.9912  5.00 epochs\n");
}

TEST(Console, NothingGivesNothing) { EXPECT_EQ(console_text({}, {}), ""); }

TEST(Csv, TheApprovedFile) { expect_golden("records.csv", csv_text(sample_table())); }

TEST(Csv, QuotesOnlyWhatNeedsIt) {
  Record r;
  r.kind = "op";
  r.fields = {{"a", "x,y"}, {"b", {{"c", 1}}}};
  r.status = "error";
  r.reason = "he said \"no\"\nand left";
  const std::string text = csv_text({&r, 1});
  EXPECT_THAT(text, HasSubstr("op,\"x,y\",\"{\"\"c\"\":1}\",error,\"he said \"\"no\"\"\nand left\","));
}

TEST(NumberText, DecimalsTheIntervalSupports) {
  EXPECT_EQ(supported_decimals(14.62, Interval{14.58, 14.71}), 2);
  EXPECT_EQ(supported_decimals(146.9, Interval{146.2, 147.5}), 1);
  EXPECT_EQ(supported_decimals(1234, Interval{1200, 1260}), 0);
  EXPECT_EQ(supported_decimals(1, Interval{0.5, 2.5}), 0);
  EXPECT_EQ(supported_decimals(1, Interval{1 - 1e-12, 1 + 1e-12}), 6);
  EXPECT_EQ(supported_decimals(1.5, Interval{1.5, 1.5}), 2);  // no width: three significant digits
  EXPECT_EQ(supported_decimals(0.0123, std::nullopt), 4);
  EXPECT_EQ(supported_decimals(0, std::nullopt), 0);
  EXPECT_EQ(number_text(std::nan(""), 2), "n/a");
}

TEST(NumberText, TimeUnits) {
  EXPECT_EQ(time_unit(2).first, "s");
  EXPECT_EQ(time_unit(0.002).first, "ms");
  EXPECT_EQ(time_unit(2e-6).first, "us");
  EXPECT_EQ(time_unit(2e-10).first, "ns");
}

TEST(TextTable, CountsCharactersNotBytes) {
  TextTable table;
  table.column("a");
  table.column("b", Align::right);
  table.row({{"\xc3\xa9"}, {"1"}});
  table.row({{"xy"}, {"22"}}, {"remark"});
  EXPECT_EQ(table.text(false), "a    b\n\xc3\xa9    1\nxy  22  remark\n");
}

}  // namespace
}  // namespace d5
