// SPDX-License-Identifier: Apache-2.0
#include "d5/recipe/suite.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Json = nlohmann::json;

const char* const two_operators = R"(# Products and sums
# Source: nobody
operator,set,m,n,shape
Gemm,training,16,32,
Gemm,inference,1,32,
Relu,training,,,4x5
)";

// A made-up level: Gemm has m, n and dtype, Relu has shape and dtype. m is a number of at most 100.
Json complete(const Json& fields) {
  Json result = fields;
  const std::vector<std::string> own = fields.at("operator") == "Gemm" ? std::vector<std::string>{"m", "n"}
                                       : fields.at("operator") == "Relu"
                                           ? std::vector<std::string>{"shape"}
                                           : throw FieldError("operator", "[op] unknown operator; legal: Gemm, Relu");
  for (const auto& [name, value] : fields.items())
    if (name != "kind" && name != "operator" && name != "dtype" && std::ranges::find(own, name) == own.end())
      throw FieldError(name, "[op] unknown field '" + name + "'");
  for (const std::string& name : own)
    if (!result.contains(name)) result[name] = 7;
  if (result.contains("m") && !result["m"].is_number()) throw FieldError("m", "[op] m is no number");
  if (!result.contains("dtype")) result["dtype"] = "f32";
  return result;
}
void check(const Json& fields) {
  if (fields.contains("m") && fields["m"] > 100) throw Error("[op] m and n do not fit together");
}

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "d5-suite-XXXXXX").string();
    path_ = mkdtemp(name.data());
    setenv("D5_SUITE_PATH", path_.c_str(), 1);
  }
  ~Folder() {
    unsetenv("D5_SUITE_PATH");
    std::filesystem::remove_all(path_);
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

struct Resolved {
  std::vector<Json> cases, labels;
  std::vector<std::string> problems;
};
Resolved resolve(Recipe recipe) {
  Resolved result;
  result.problems = resolve_suites(recipe, complete, check);
  result.cases = expand(recipe, complete, &result.labels);
  return result;
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Suite, ReadsColumnsAsFieldsAndSetAsALabel) {
  const Suite suite = parse_suite(two_operators, "folder/both.csv");
  EXPECT_EQ(suite.name, "both");
  EXPECT_EQ(suite.about, "Products and sums");
  ASSERT_EQ(suite.rows.size(), 3u);
  EXPECT_EQ(suite.rows[0].fields, (Json{{"operator", "Gemm"}, {"m", 16}, {"n", 32}}));  // no shape: an empty cell
  EXPECT_EQ(suite.rows[0].set, "training");
  EXPECT_EQ(suite.rows[0].line, 4u);
  EXPECT_EQ(suite.rows[0].columns.at("m"), 15u);
  EXPECT_EQ(suite.rows[2].fields, (Json{{"operator", "Relu"}, {"shape", "4x5"}}));
}

TEST(Suite, SurvivesWhatOtherProgramsWrite) {
  const Suite suite = parse_suite("\xef\xbb\xbf# about\r\n\r\n operator , m \r\nGemm,\t16 \r\n", "a.csv");
  ASSERT_EQ(suite.rows.size(), 1u);
  EXPECT_EQ(suite.rows[0].fields, (Json{{"operator", "Gemm"}, {"m", 16}}));
  EXPECT_EQ(suite.about, "about");
}

TEST(Suite, AHeaderThatNamesNoOperatorIsRefused) {
  EXPECT_THAT(error_of([] { parse_suite("# x\nm,n\n1,2\n", "a.csv"); }), HasSubstr("a.csv:2: no column 'operator'"));
  EXPECT_THAT(error_of([] { parse_suite("operator,m,m\n", "a.csv"); }), HasSubstr("a.csv:1:12: a second column 'm'"));
  EXPECT_THAT(error_of([] { parse_suite("# nothing\n", "a.csv"); }), HasSubstr("a.csv"));
}

TEST(Suite, ABlockStandsForItsRows) {
  const Folder folder;
  folder.write("both.csv", two_operators);
  const Resolved all = resolve({.blocks = {{.values = {{"suite", "both"}}}}});
  EXPECT_THAT(all.problems, IsEmpty());
  ASSERT_EQ(all.cases.size(), 3u);
  EXPECT_EQ(all.cases[1]["m"], 1);
  EXPECT_EQ(all.labels[1], (Json{{{"suite", "both"}, {"set", "inference"}, {"line", 5}}}));

  EXPECT_EQ(resolve({.blocks = {{.values = {{"suite", "both"}, {"set", "training"}}}}}).cases.size(), 2u);
  EXPECT_EQ(resolve({.blocks = {{.values = {{"suite", "both"}, {"operator", "Relu"}}}}}).cases.size(), 1u);
}

TEST(Suite, ValuesAndAxesReplaceThoseOfRowsThatHaveThem) {
  const Folder folder;
  folder.write("both.csv", two_operators);
  const Resolved both = resolve({.axes = {{"dtype", {"f32", "bf16"}}},
                                 .blocks = {{.values = {{"suite", "both"}, {"m", 3}}, .axes = {{"n", {1, 2}}}}}});
  // The two rows of Gemm become one (m is 3 in both) x 2 n x 2 types, that of Relu 2 types.
  ASSERT_EQ(both.cases.size(), 6u);
  for (const Json& one : both.cases) EXPECT_TRUE(one["operator"] == "Relu" || one["m"] == 3);
  EXPECT_EQ(both.labels[0].size(), 2u);  // both rows made it
}

TEST(Suite, FixedValuesOfTheRecipeStay) {
  const Folder folder;
  folder.write("typed.csv", "operator,dtype\nRelu,bf16\n");
  EXPECT_EQ(resolve({.fixed = {{"dtype", "f64"}}, .blocks = {{.values = {{"suite", "typed"}}}}}).cases[0]["dtype"],
            "f64");
}

TEST(Suite, BadRowsAreNamedWithLineAndColumnAndTheRestRuns) {
  const Folder folder;
  const std::string path = folder.write("bad.csv",
                                        "operator,set,m,n\n"
                                        "Gemm,a,1,2\n"
                                        "Gemm,a,many,2\n"
                                        "Gem,a,1,2\n"
                                        "Gemm,a,1\n"
                                        "Gemm,a,1000,2\n"
                                        "Gemm,a,5,6\n");
  const Resolved some = resolve({.blocks = {{.values = {{"suite", path}}}}});
  ASSERT_EQ(some.cases.size(), 2u);
  EXPECT_EQ(some.cases[1]["m"], 5);
  ASSERT_EQ(some.problems.size(), 4u);
  EXPECT_EQ(some.problems[0], "[suite] " + path + ":5:1: 3 cells; 4 are wanted, as many as there are columns");
  EXPECT_EQ(some.problems[1], "[suite] " + path + ":3:8: [op] m is no number");
  EXPECT_EQ(some.problems[2], "[suite] " + path + ":4:1: [op] unknown operator; legal: Gemm, Relu");
  EXPECT_EQ(some.problems[3], "[suite] " + path + ":6:1: [op] m and n do not fit together");
}

TEST(Suite, UnknownSuitesSetsAndOperatorsSuggestTheNearest) {
  const Folder folder;
  folder.write("both.csv", two_operators);
  const auto refused = [](Json values) { return error_of([&] { resolve({.blocks = {{.values = values}}}); }); };
  EXPECT_THAT(refused({{"suite", "boht"}}), HasSubstr("did you mean 'both'"));
  EXPECT_THAT(refused({{"suite", "both"}, {"set", "trainin"}}), HasSubstr("did you mean 'training'"));
  EXPECT_THAT(refused({{"suite", "both"}, {"operator", "Gem"}}), HasSubstr("did you mean 'Gemm'"));
  EXPECT_THAT(refused({{"suite", 3}}), HasSubstr("suite is 3"));
  EXPECT_THAT(refused({{"suite", "nowhere/none.csv"}}), HasSubstr("none.csv: cannot read"));
}

TEST(Suite, ARecipeNamesOneAndPlacesStayRight) {
  const Folder folder;
  folder.write("both.csv", two_operators);
  Recipe recipe = parse_recipe(
      "name = \"r\"\n[[cases]]\nsuite = \"both\"\nset = [\"training\"]\n[[cases]]\noperator = \"Gemm\"\nm = \"x\"\n",
      "r.toml");
  resolve_suites(recipe, complete, check);
  ASSERT_EQ(recipe.blocks.size(), 3u);
  EXPECT_THAT(recipe.places.at("cases[0].m"), HasSubstr("both.csv:4:15"));
  EXPECT_THAT(error_of([&] { expand(recipe, complete); }), StartsWith("[recipe] r.toml:7:1:"));
}

TEST(Suite, AColumnThatSaysWhatRowsAreIsRefused) {
  EXPECT_THAT(error_of([] { parse_suite("operator,kind\nRelu,net\n", "k.csv"); }),
              HasSubstr("k.csv:1:10: a column 'kind'"));
}

}  // namespace
}  // namespace d5
