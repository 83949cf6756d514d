// SPDX-License-Identifier: Apache-2.0
#include "d5/report/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "d5/core/error.hpp"
#include "golden.hpp"
#include "sample_records.hpp"

namespace d5 {
namespace {

using ::testing::HasSubstr;

std::string error_of(const nlohmann::json& json) {
  try {
    record_from_json(json);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Record, LinesAreTheApprovedOnes) {
  std::string lines = to_line(sample_environment()) + "\n";
  for (const Record& r : sample_table()) lines += to_line(r) + "\n";
  Record strange = sample_record("onednn", 1024, 0.01);
  strange.metrics[0].second.median = std::nan("");
  strange.samples.time_s[0] = std::numeric_limits<double>::infinity();
  strange.fields["optimizer"] = {{"name", "momentum"}, {"learning_rate", 0.01}};
  strange.reason = "a byte that is no text: \xff";
  lines += to_line(strange) + "\n";
  expect_golden("records.jsonl", lines);
}

TEST(Record, SurvivesBothWays) {
  for (const Record& r : sample_table()) {
    EXPECT_EQ(to_line(record_from_line(to_line(r))), to_line(r));
    EXPECT_EQ(to_json(record_from_json(to_json(r))), to_json(r));
  }
  const Record r = sample_table()[1];
  const Record again = record_from_line(to_line(r));
  EXPECT_EQ(again.samples.time_s, r.samples.time_s);  // every bit
  EXPECT_EQ(again.fields, r.fields);
  EXPECT_EQ(again.metric("gflops")->ci95, r.metric("gflops")->ci95);
  EXPECT_EQ(again.metric("nothing"), nullptr);
}

TEST(Record, MetricsKeepTheirOrder) {
  Record r = sample_record("onednn", 64, 1);
  r.metrics = {{"zebra", {"s", 1}}, {"apple", {"s", 2}}, {"mango", {"s", 3}}};
  const Record again = record_from_line(to_line(r));
  ASSERT_EQ(again.metrics.size(), 3u);
  EXPECT_EQ(again.metrics[0].first, "zebra");
  EXPECT_EQ(again.metrics[1].first, "apple");
  EXPECT_EQ(again.metrics[2].first, "mango");
}

TEST(Record, NotFiniteIsNullAndComesBackAsNan) {
  Record r = sample_record("onednn", 64, 1);
  r.metrics = {{"time", {"s", std::nan(""), {{1, std::numeric_limits<double>::infinity()}}}}};
  const nlohmann::json json = to_json(r);
  EXPECT_TRUE(json["metrics"]["time"]["median"].is_null());
  const Record again = record_from_json(json);
  EXPECT_TRUE(std::isnan(again.metric("time")->median));
  EXPECT_EQ(again.metric("time")->ci95->first, 1);
  EXPECT_TRUE(std::isnan(again.metric("time")->ci95->second));
}

TEST(Record, EnvironmentHoldsOnlyWhatItNeeds) {
  Record e = sample_environment();
  e.warnings = {"cores shared"};
  const nlohmann::json json = to_json(e);
  EXPECT_EQ(json.size(), 5u);
  const Record again = record_from_json(json);
  EXPECT_EQ(again.environment, "0123456789abcdef");
  EXPECT_EQ(again.details, e.details);
  EXPECT_EQ(again.warnings, e.warnings);
}

TEST(Record, ErrorsNameTheField) {
  const nlohmann::json good = to_json(sample_record("onednn", 64, 1));
  nlohmann::json bad = good;
  bad.erase("status");
  EXPECT_EQ(error_of(bad), "[record] 'status' is missing");
  bad = good;
  bad["status"] = "ok";
  EXPECT_THAT(error_of(bad), HasSubstr("'status' is \"ok\"; legal: passed, failed"));
  bad = good;
  bad["schema"] = "d5-record/9";
  EXPECT_EQ(error_of(bad), "[record] 'schema' is \"d5-record/9\"; legal: d5-record/1");
  bad = good;
  bad["samples"]["time_s"][2] = "fast";
  EXPECT_EQ(error_of(bad), "[record] 'samples.time_s[2]' is \"fast\"; legal: a number or null");
  bad = good;
  bad["samples"]["launch"].push_back(1);
  EXPECT_EQ(error_of(bad), "[record] 'samples.launch' has 49 entries; legal: 48, as many as 'samples.time_s'");
  bad = good;
  bad["samples"]["round"][0] = 5000000000;
  EXPECT_THAT(error_of(bad), HasSubstr("'samples.round[0]' is 5000000000; legal: an integer of"));
  bad = good;
  bad["samples"]["batch"] = 18446744073709551615u;
  EXPECT_THAT(error_of(bad), HasSubstr("'samples.batch' is 18446744073709551615"));
  bad = good;
  bad["metrics"]["time"]["ci95"] = {1, 2, 3};
  EXPECT_EQ(error_of(bad), "[record] 'metrics.time.ci95' is [1,2,3]; legal: null or [low, high]");
  bad = good;
  bad["bound"].erase("share");
  EXPECT_EQ(error_of(bad), "[record] 'bound.share' is missing");
  EXPECT_EQ(error_of(nlohmann::json::array()), "[record] not a JSON object");
}

TEST(Record, NestingIsLimited) {
  EXPECT_THROW(record_from_line(std::string(100000, '[')), Error);
  EXPECT_THROW(record_from_line("{\"a\":" + std::string(200, '[') + std::string(200, ']') + "}"), Error);
}

}  // namespace
}  // namespace d5
