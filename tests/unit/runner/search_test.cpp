// SPDX-License-Identifier: Apache-2.0
#include "d5/runner/search.hpp"

#include <gmock/gmock.h>

namespace d5 {
namespace {

using testing::HasSubstr;

template <class Act>
std::string usage_error(Act act) {
  try {
    act();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(SearchSpace, RangesGoFromEndToEnd) {
  const SearchField rate = parse_search_field("optimizer.learning_rate", "log:0.0001..0.1");
  EXPECT_TRUE(rate.logarithmic);
  EXPECT_EQ(value_at(rate, 0), 0.0001);
  EXPECT_EQ(value_at(rate, 1), 0.1);
  EXPECT_DOUBLE_EQ(value_at(rate, 1.0 / 3), 0.001);
  const SearchField width = parse_search_field("width", "8..16");
  EXPECT_EQ(dimension_of(width).choices, 9);
  EXPECT_EQ(value_at(width, 0), 8);
  EXPECT_EQ(value_at(width, 1), 16);
  EXPECT_TRUE(value_at(width, 0.5).is_number_integer());
  const SearchField large = parse_search_field("width", "log:8..4096");
  EXPECT_EQ(dimension_of(large).choices, 0);
  EXPECT_EQ(value_at(large, 0.5), 181);  // the root of 8 x 4096
}

TEST(SearchSpace, ChoicesKeepTheirType) {
  const SearchField batch = parse_search_field("batch", "32,64,128");
  EXPECT_EQ(dimension_of(batch).choices, 3);
  EXPECT_TRUE(dimension_of(batch).ordered);
  EXPECT_EQ(value_at(batch, 0.99), 128);
  EXPECT_FALSE(dimension_of(parse_search_field("augment", "flip,cutout")).ordered);
}

TEST(SearchSpace, WrongRangesAreNamed) {
  EXPECT_THAT(usage_error([] { parse_search_field("width", "64..8"); }), HasSubstr("width is 64 to 8"));
  EXPECT_THAT(usage_error([] { parse_search_field("rate", "log:0..1"); }), HasSubstr("begins at 0"));
  EXPECT_THAT(usage_error([] { parse_search_field("rate", "log:0.1"); }), HasSubstr("legal"));
  EXPECT_THAT(usage_error([] { search_field_from("rate", 3, "a.toml:4:1"); }), HasSubstr("a.toml:4:1"));
  EXPECT_THAT(usage_error([] {
                search_field_from("rate", {{"from", 1}, {"to", 2}, {"step", 1}}, "here");
              }),
              HasSubstr("'step'"));
}

constexpr const char* text = R"(
name  = "little"
level = 2
[fixed]
network = "mlp"
features = 64
classes = 4
dataset = "generated-images"
options = "channels=1;height=8;width=8;classes=4"
epochs = 9
[mutable]
optimizer = { name = "momentum", learning_rate = 0.01, mu = 0.5 }
[axes]
seed = [3, 4, 5]
[search]
method = "halving"
trials = 4
values = { eta = 2.0 }
[search.space]
batch = [16, 32]
"optimizer.learning_rate" = { from = 0.001, to = 0.1, scale = "log" }
)";

TEST(SearchPlan, IsReadFromTheRecipe) {
  const SearchPlan plan = search_plan_from(parse_recipe(text, "little.toml"));
  EXPECT_EQ(plan.method, "halving");
  EXPECT_EQ(plan.trials, 4);
  EXPECT_EQ(plan.values.real("eta", 0), 2);
  ASSERT_EQ(plan.space.size(), 2u);
  EXPECT_EQ(plan.space[0].field, "batch");
  EXPECT_EQ(plan.space[1].field, "optimizer.learning_rate");
  EXPECT_TRUE(plan.space[1].logarithmic);
  EXPECT_THAT(usage_error([] { parse_recipe("name = \"a\"\nlevel = 2\n[search]\ntrails = 3\n", "a.toml"); }),
              HasSubstr("trials"));
}

TEST(SearchPlan, TrialIsOneTrainingWithTheseValues) {
  const Recipe recipe = parse_recipe(text, "little.toml");
  const Json fields = trial_case(recipe, {{"batch", 16}, {"optimizer.learning_rate", 0.05}, {"width", 24}}, 1.0 / 3);
  EXPECT_EQ(fields.at("batch"), 16);
  EXPECT_EQ(fields.at("width"), 24);  // of the network itself
  EXPECT_EQ(fields.at("seed"), 3);
  EXPECT_EQ(fields.at("epochs"), 3);
  const std::string optimizer = fields.at("optimizer");
  EXPECT_THAT(optimizer, HasSubstr("momentum"));
  EXPECT_THAT(optimizer, HasSubstr("learning_rate=0.05"));
  EXPECT_THAT(optimizer, HasSubstr("mu=0.5"));
}

TEST(SearchPlan, FixedAndUnknownValuesAreRefused) {
  const Recipe recipe = parse_recipe(text, "little.toml");
  EXPECT_THAT(usage_error([&] { trial_case(recipe, {{"classes", 5}}, 1); }), HasSubstr("another benchmark"));
  EXPECT_THAT(usage_error([&] { trial_case(recipe, {{"bach", 5}}, 1); }), HasSubstr("batch"));
  EXPECT_THAT(usage_error([&] { trial_case(recipe, {{"optimizer.rate", 5}}, 1); }), HasSubstr("learning_rate"));
}

TEST(SearchPlan, TrialsAreRankedByWhatIsWanted) {
  Record good{.kind = "train", .fields = trial_case(parse_recipe(text, "little.toml"), Json::object(), 1)};
  good.status = "passed";
  good.details["training"] = {{"quality", "accuracy"}};
  good.metrics.emplace_back("test_accuracy", Metric{.unit = "1", .median = 0.9, .ci95 = {}});
  Record better = good;
  better.metrics[0].second.median = 0.95;
  EXPECT_LT(trial_cost(better, "quality"), trial_cost(good, "quality"));
  EXPECT_LT(trial_cost(better, "time_to_target"), trial_cost(good, "time_to_target"));
  good.metrics.emplace_back("time_to_target", Metric{.unit = "s", .median = 500, .ci95 = {}});
  EXPECT_LT(trial_cost(good, "time_to_target"), trial_cost(better, "time_to_target"));  // the other never reached it
  good.status = "failed";
  EXPECT_TRUE(std::isinf(trial_cost(good, "quality")));
}

}  // namespace
}  // namespace d5
