// SPDX-License-Identifier: Apache-2.0
#include "d5/core/attributes.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace d5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Attributes some{{"axis", int64_t{-1}},
                      {"alpha", 0.5},
                      {"training", true},
                      {"mode", std::string("same")},
                      {"pads", std::vector<int64_t>{1, 2}},
                      {"scales", std::vector<double>{0.5, 2}}};

TEST(Attributes, ReadsWhatIsThereAndTheDefaultOtherwise) {
  EXPECT_EQ(some.integer("axis", 7), -1);
  EXPECT_EQ(some.integer("other", 7), 7);
  EXPECT_EQ(some.real("alpha", 1), 0.5);
  EXPECT_EQ(some.real("axis", 1), -1.0);
  EXPECT_TRUE(some.flag("training", false));
  EXPECT_EQ(some.text("mode", ""), "same");
  EXPECT_THAT(some.integers("pads"), ElementsAre(1, 2));
  EXPECT_THAT(some.integers("axis"), ElementsAre(-1));
  EXPECT_THAT(some.reals("scales"), ElementsAre(0.5, 2));
  EXPECT_THAT(some.reals("pads"), ElementsAre(1, 2));
  EXPECT_EQ(some.tensor("value"), nullptr);
  EXPECT_EQ(some.graph("body"), nullptr);
  EXPECT_TRUE((Attributes{{"x", int64_t{1}}}).flag("x", false));
}

TEST(Attributes, WrongTypesAreNamed) {
  EXPECT_THAT([] { some.integer("alpha", 0); },
              ThrowsMessage<UsageError>("[attribute] 'alpha' is '0.5'; an integer is wanted"));
  EXPECT_THAT([] { some.real("mode", 0); },
              ThrowsMessage<UsageError>("[attribute] 'mode' is 'same'; a number is wanted"));
  EXPECT_THAT([] { some.flag("axis", false); }, ThrowsMessage<UsageError>(HasSubstr("'-1'; true or false is wanted")));
  EXPECT_THAT([] { some.text("pads", ""); }, ThrowsMessage<UsageError>(HasSubstr("'1,2'; a word is wanted")));
  EXPECT_THROW(some.integers("scales"), UsageError);
  EXPECT_THROW(some.reals("training"), UsageError);
  EXPECT_THROW(some.tensor("axis"), UsageError);
}

TEST(Attributes, UnknownNamesAreCaught) {
  const std::vector<std::string> legal{"axis", "alpha", "training", "mode", "pads", "scale"};
  EXPECT_THAT([&] { some.check_names(legal, "[conv]"); },
              ThrowsMessage<UsageError>(HasSubstr("[conv] unknown attribute 'scales'; did you mean 'scale'?")));
  Attributes fewer = some;
  fewer.erase("scales");
  EXPECT_NO_THROW(fewer.check_names(legal, "[conv]"));
}

TEST(Attributes, JsonGoesBothWays) {
  Attributes attributes = some;
  attributes.set("words", std::vector<std::string>{"a", "b"});
  EXPECT_EQ(attributes_from_json(to_json(attributes)), attributes);
  attributes.set("value", std::make_shared<const Tensor>(Tensor::scalar(1)));
  EXPECT_FALSE(to_json(attributes).contains("value"));
}

TEST(Attributes, JsonListsKeepTheirFractions) {
  const auto attributes = attributes_from_json(nlohmann::json::parse(R"({"x": [1, 0.5], "empty": []})"));
  EXPECT_THAT(attributes.reals("x"), ElementsAre(1, 0.5));
  EXPECT_TRUE(attributes.integers("empty").empty());
  for (const char* wrong : {R"({"x": ["a", 1]})", R"({"x": null})", R"({"x": {"y": 1}})", R"({"x": [[1]]})"})
    EXPECT_THROW(attributes_from_json(nlohmann::json::parse(wrong)), UsageError) << wrong;
}

}  // namespace
}  // namespace d5
