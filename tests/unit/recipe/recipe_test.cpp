// SPDX-License-Identifier: Apache-2.0
#include "d5/recipe/recipe.hpp"

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
using ::testing::StartsWith;
using Json = nlohmann::json;

Json as_given(const Json& fields) { return fields; }

std::string error_of(const std::string& text) {
  try {
    expand(parse_recipe(text, "quick.toml"), as_given);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no error";
}

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "d5-recipe-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

std::string load_error(const std::string& path) {
  try {
    load_recipe(path);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no error";
}

const char* const whole = R"(name = "mnist-lenet"
level = 2
about = "the smallest training worth timing"

[fixed]
network = "lenet"
target  = { test_accuracy = 0.989 }
epochs  = 5

[mutable]
backend   = "onednn"
optimizer = { name = "momentum", learning_rate = 0.01 }

[axes]
seed = [1, 2]
batch = [64, 32]

[measure]
launches = 6
max_time = 10.0

[accept]
test_accuracy = ">= 0.989"
time = "<1e3"
)";

TEST(Recipe, EverySection) {
  const Recipe r = parse_recipe(whole, "recipes/mnist.toml");
  EXPECT_EQ(r.name, "mnist-lenet");
  EXPECT_EQ(r.kind, "train");
  EXPECT_EQ(r.about, "the smallest training worth timing");
  EXPECT_EQ(r.file, "recipes/mnist.toml");
  EXPECT_EQ(r.fixed, Json::parse(R"({"network":"lenet","target":{"test_accuracy":0.989},"epochs":5})"));
  EXPECT_EQ(r.changeable["optimizer"]["learning_rate"], 0.01);
  ASSERT_EQ(r.axes.size(), 2u);
  EXPECT_EQ(r.axes[0].name, "seed");  // as written, not by name
  EXPECT_EQ(r.measure, Json::parse(R"({"launches":6,"max_time":10.0})"));
  ASSERT_EQ(r.accept.size(), 2u);
  EXPECT_EQ(r.accept[0].metric, "test_accuracy");
  EXPECT_EQ(r.accept[0].relation, ">=");
  EXPECT_EQ(r.accept[0].threshold, 0.989);
  EXPECT_EQ(r.accept[0].place, "recipes/mnist.toml:23:1");
  EXPECT_EQ(r.accept[1].relation, "<");
  EXPECT_EQ(r.accept[1].threshold, 1000);
  EXPECT_EQ(r.places.at("seed"), "recipes/mnist.toml:15:1");
  EXPECT_EQ(r.places.at("measure.max_time"), "recipes/mnist.toml:20:1");
}

TEST(Recipe, LevelsAndDefaults) {
  for (const auto& [level, kind] : {std::pair{0, "op"}, {1, "net"}, {2, "train"}, {3, "train"}}) {
    EXPECT_EQ(parse_recipe("level = " + std::to_string(level), "a.toml").kind, kind);
  }
  EXPECT_EQ(parse_recipe("", "some/where.toml").name, "where");
  EXPECT_EQ(expand(parse_recipe("", "a.toml"), as_given), (std::vector<Json>{{{"kind", "op"}}}));
}

TEST(Recipe, ErrorsHaveTheirPlace) {
  EXPECT_THAT(error_of("name = \"q\"\n\n[fixd]\n"),
              StartsWith("[recipe] quick.toml:3:2: unknown key 'fixd'; did you mean 'fixed'?"));
  EXPECT_THAT(error_of("fixd = 1"), StartsWith("[recipe] quick.toml:1:1: unknown key 'fixd'; did you mean 'fixed'?"));
  EXPECT_THAT(error_of("a = [1,\n  = 3"), StartsWith("[recipe] quick.toml:2:3: "));
  EXPECT_EQ(error_of("[fixed]\nm = 1\n[axes]\n  m = [1, 2]\n"),
            "[recipe] quick.toml:4:3: 'm' under [axes] is already under [fixed] at quick.toml:2:1");
  EXPECT_EQ(error_of("[mutable]\nm = 1\n[axes]\nm = [1, 2]\n"),
            "[recipe] quick.toml:4:1: 'm' under [axes] is already under [mutable] at quick.toml:2:1");
  EXPECT_EQ(error_of("[fixed]\nm = 1\n[[cases]]\nm = 2\n"),
            "[recipe] quick.toml:4:1: 'm' of a case is already under [fixed] at quick.toml:2:1");
  EXPECT_EQ(error_of("[axes]\nm = [1]\n[[cases]]\nm = [2]\n"),
            "[recipe] quick.toml:4:1: 'm' of a case is already under [axes] at quick.toml:2:1");
  EXPECT_THAT(error_of("[fixed]\nm = [1, 2]"), StartsWith("[recipe] quick.toml:2:1: an array is an axis"));
  EXPECT_THAT(error_of("[mutable]\no = { b = [1, 2] }"), StartsWith("[recipe] quick.toml:2:1: an array is an axis"));
  EXPECT_THAT(error_of("[axes]\nm = [[1, 2]]"), StartsWith("[recipe] quick.toml:2:1: an array is an axis"));
  EXPECT_EQ(error_of("[axes]\nm = []"), "[recipe] quick.toml:2:1: an empty axis; legal: at least one value");
  EXPECT_THAT(error_of("[axes]\nm = 3"), StartsWith("[recipe] quick.toml:2:1: axis 'm' is one value"));
  EXPECT_THAT(error_of("[mutable]\nd = 1979-05-27"), StartsWith("[recipe] quick.toml:2:1: a date; legal:"));
  EXPECT_THAT(error_of("[mutable]\nx = nan"), StartsWith("[recipe] quick.toml:2:1: value nan; legal: a finite number"));
  EXPECT_THAT(error_of("level = 4"), StartsWith("[recipe] quick.toml:1:1: level; legal: 0"));
  EXPECT_THAT(error_of("name = 3"), StartsWith("[recipe] quick.toml:1:1: 'name' is an integer; legal: a text"));
  EXPECT_THAT(error_of("fixed = 3"), StartsWith("[recipe] quick.toml:1:1: 'fixed' is an integer; legal: a table"));
  EXPECT_THAT(error_of("cases = 3"), StartsWith("[recipe] quick.toml:1:1: 'cases' must be written as [[cases]]"));
  EXPECT_THAT(error_of("[mutable]\nkind = \"op\""), StartsWith("[recipe] quick.toml:2:1: 'kind' is no field"));
  for (const char* wrong :
       {"\"== 3\"", "\">= x\"", "\"3\"", "\">=\"", "\"\"", "\">= 3 4\"", "\">= nan\"", "3", "\">>= 3\""}) {
    EXPECT_THAT(error_of(std::string("[accept]\nshare = ") + wrong),
                StartsWith("[recipe] quick.toml:2:1: accept 'share' is"))
        << wrong;
  }
}

TEST(Recipe, AnErrorOfAFieldGetsItsPlace) {
  const Recipe r = parse_recipe("[mutable]\ndtype = \"f32\"\n[[cases]]\nm = 1\n[[cases]]\n m = -1\n", "quick.toml");
  const auto check = [](const Json& fields) -> Json {
    if (fields["m"] < 0) throw FieldError("m", "[op] m is -1; legal: 1 and more");
    return fields;
  };
  try {
    expand(r, check);
    FAIL();
  } catch (const FieldError& e) {
    EXPECT_STREQ(e.what(), "[recipe] quick.toml:6:2: [op] m is -1; legal: 1 and more");
    EXPECT_EQ(e.field(), "m");
  }
  const auto refuse = [](const Json&) -> Json { throw FieldError("not_written", "[op] missing"); };
  try {
    expand(r, refuse);
    FAIL();
  } catch (const FieldError& e) {
    EXPECT_STREQ(e.what(), "[op] missing");
  }
}

TEST(Recipe, OrderOfExpansion) {
  const Recipe r = parse_recipe(R"([axes]
backend = ["onednn", "reference"]
[[cases]]
operator = "Gemm"
n = [1, 2]
m = [10, 20]
[[cases]]
operator = "Relu"
)",
                                "a.toml");
  std::vector<std::string> seen;
  for (const Json& c : expand(r, as_given)) {
    seen.push_back(c["operator"].get<std::string>() + " " + c.value("n", Json("-")).dump() + " " +
                   c.value("m", Json("-")).dump() + " " + c["backend"].get<std::string>());
  }
  EXPECT_THAT(seen, ElementsAre("Gemm 1 10 onednn", "Gemm 1 10 reference", "Gemm 1 20 onednn", "Gemm 1 20 reference",
                                "Gemm 2 10 onednn", "Gemm 2 10 reference", "Gemm 2 20 onednn", "Gemm 2 20 reference",
                                "Relu \"-\" \"-\" onednn", "Relu \"-\" \"-\" reference"));
}

TEST(Recipe, SixHundredCases) {
  std::string text = "[axes]\na = [0,1,2,3,4,5,6,7,8,9]\nb = [0,1,2,3,4,5]\nc = [0,1,2,3,4,5,6,7,8,9]\n";
  const std::vector<Json> cases = expand(parse_recipe(text, "a.toml"), as_given);
  ASSERT_EQ(cases.size(), 600u);
  for (int i = 0; i < 600; ++i) {
    EXPECT_EQ(cases[i]["a"], i / 60);
    EXPECT_EQ(cases[i]["b"], i / 10 % 6);
    EXPECT_EQ(cases[i]["c"], i % 10);
  }
}

TEST(Recipe, DuplicatesAreDroppedAfterCompletion) {
  const Recipe r = parse_recipe("[axes]\nm = [1, 2, 1]\nn = [3, 4]", "a.toml");
  EXPECT_EQ(expand(r, as_given).size(), 4u);
  EXPECT_EQ(expand(r, [](const Json&) { return Json{{"m", 1}}; }).size(), 1u);
}

TEST(Recipe, TooManyCasesNameTheAxes) {
  std::string values = "[0";
  for (int i = 1; i < 101; ++i) values += "," + std::to_string(i);
  values += "]";
  const std::string text = "[axes]\nm = " + values + "\nn = " + values + "\nk = " + values + "\n";
  EXPECT_EQ(error_of(text), "[recipe] quick.toml: more than 1000000 cases (m 101 x n 101 x k 101)");
  std::string many = "[axes]\n";
  for (int i = 0; i < 40; ++i) many += "a" + std::to_string(i) + " = " + values + "\n";
  EXPECT_THAT(error_of(many), HasSubstr("more than 1000000 cases (a0 101 x a1 101"));  // the product overflows
}

TEST(Recipe, OverridesFromOutside) {
  Recipe r = parse_recipe(
      "[fixed]\nepochs = 5\n[mutable]\nthreads = 1\n[axes]\nm = [1, 2]\nn = [1, 2]\n[[cases]]\nk = [7, 8]\n", "a.toml");
  override_value(r, "threads", {2});
  override_value(r, "m", {5});
  override_value(r, "k", {9});
  override_value(r, "backend", {"onednn", "reference"});
  const std::vector<Json> cases = expand(r, as_given);
  EXPECT_EQ(cases.size(), 4u);
  EXPECT_EQ(cases[0], Json::parse(R"({"kind":"op","epochs":5,"threads":2,"m":5,"n":1,"k":9,"backend":"onednn"})"));
  EXPECT_EQ(cases[1]["backend"], "reference");
  try {
    override_value(r, "epochs", {6});
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(), "[recipe] 'epochs' is fixed (5) at a.toml:2:1: with another value it is another benchmark");
  }
  EXPECT_THROW(override_value(r, "m", {}), UsageError);
}

// What a training leaves to its defaults is part of what is measured, as soon as it is judged.
TEST(Recipe, AJudgedTrainingIsWhatTheRecipeSays) {
  const auto refusal = [](Recipe r, const std::string& field) -> std::string {
    try {
      override_value(r, field, {1});
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  const std::string text = "level = 2\n[fixed]\nnetwork = \"lenet\"\n[mutable]\nbatch = 8\n[axes]\nwidth = [1]\n";
  const Recipe accepts = parse_recipe(text + "[accept]\ntest_accuracy = \">= 0.9\"\n", "a.toml");
  const Recipe aims =
      parse_recipe("level = 2\n[fixed]\nnetwork = \"lenet\"\ntarget = 0.9\n[mutable]\nbatch = 8\n", "b.toml");
  for (const char* field : {"samples", "test_samples", "test_dataset", "options", "test_share", "loss", "task",
                            "on_error", "epochs", "depth", "replay"}) {
    EXPECT_EQ(refusal(accepts, field),
              std::string("[recipe] '") + field +
                  "' is not mutable in a.toml, which judges what it measures by [accept]: with another value it is "
                  "another benchmark; mutable: batch, width, and what does not change the measurement (seed, threads, "
                  "ranks, ...)");
    EXPECT_THAT(refusal(aims, field), HasSubstr("by a target")) << field;
    EXPECT_EQ(refusal(parse_recipe(text, "c.toml"), field), "");  // nobody judges
  }
  for (const char* field : {"batch", "seed", "threads", "backend", "data", "checkpoint", "resume", "ranks"}) {
    EXPECT_EQ(refusal(accepts, field), "");
    EXPECT_EQ(refusal(aims, field), "");
  }
  EXPECT_EQ(refusal(accepts, "width"), "");
}

TEST(Recipe, ABlockHasItsOwnValueOfWhatIsMutable) {
  const Recipe r =
      parse_recipe("[mutable]\nthreads = 1\n[[cases]]\nm = 1\n[[cases]]\nm = 2\nthreads = [1, 2]\n", "a.toml");
  const std::vector<Json> cases = expand(r, as_given);
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[2]["threads"], 2);
}

TEST(Include, ComesFirstAndMayBeChanged) {
  Folder folder;
  folder.write("common/base.toml",
               "name = \"base\"\nlevel = 1\n[mutable]\nthreads = 1\ndtype = \"f32\"\n[measure]\nlaunches = "
               "6\n[[cases]]\nm = 1\n");
  folder.write("common/twice.toml", "include = \"base.toml\"\n[fixed]\nepochs = 1\n");
  const Recipe r = load_recipe(folder.write("a.toml",
                                            "name = \"a\"\n[mutable]\nthreads = 2\n[[cases]]\nm = 2\n[accept]\n"
                                            "# the include stands first wherever it is written\n"));
  EXPECT_EQ(r.blocks.size(), 1u);
  const Recipe b = load_recipe(folder.write(
      "b.toml", "include = [\"common/base.toml\", \"common/twice.toml\"]\n[mutable]\nthreads = 2\n[[cases]]\nm = 2\n"));
  EXPECT_EQ(b.name, "base");
  EXPECT_EQ(b.kind, "net");
  EXPECT_EQ(b.changeable, Json::parse(R"({"threads":2,"dtype":"f32"})"));
  EXPECT_EQ(b.fixed, Json::parse(R"({"epochs":1})"));
  ASSERT_EQ(b.blocks.size(), 2u);  // a file included twice counts once
  EXPECT_EQ(b.blocks[0].values["m"], 1);
  EXPECT_THAT(b.places.at("dtype"), HasSubstr("common/base.toml:5:1"));
}

TEST(Include, WhatIsFixedThereStaysFixed) {
  Folder folder;
  folder.write("base.toml", "[fixed]\nepochs = 1\n");
  const std::string error = load_error(folder.write("a.toml", "include = \"base.toml\"\n[fixed]\nepochs = 2\n"));
  EXPECT_THAT(error, HasSubstr("a.toml:3:1: 'epochs' under [fixed] is already under [fixed] at "));
  EXPECT_THAT(error, HasSubstr("base.toml:2:1"));
}

TEST(Include, WhatIsAcceptedThereStays) {
  Folder folder;
  folder.write("base.toml", "level = 2\n[accept]\ntest_accuracy = \">= 0.989\"\n");
  const std::string include = "include = \"base.toml\"\n[accept]\n";
  const std::string error = load_error(folder.write("a.toml", include + "test_accuracy = \">= 0.1\"\n"));
  EXPECT_THAT(error, HasSubstr("a.toml:3:1: 'test_accuracy' under [accept] is already under [accept] at "));
  EXPECT_THAT(error, HasSubstr("base.toml:3:1"));
  EXPECT_EQ(load_recipe(folder.write("b.toml", include + "training_time = \"< 60\"\n")).accept.size(), 2u);
}

const char* const judged =
    "level = 2\n[fixed]\nnetwork = \"lenet\"\n[mutable]\nbatch = 8\n[axes]\nseed = [1, 2]\n[accept]\ntest_accuracy "
    "= \">= 0.9\"\n";

TEST(Include, WhatAJudgedOneLeavesToItsDefaultsIsPartOfIt) {
  Folder folder;
  const std::string base = folder.write("judged.toml", judged);
  for (const char* added :
       {"[mutable]\naugment = \"flip\"\n", "[fixed]\naugment = \"flip\"\n", "[axes]\naugment = [\"flip\"]\n",
        "[[cases]]\naugment = \"flip\"\n", "[[cases]]\naugment = [\"flip\", \"crop\"]\n"}) {
    const std::string file = folder.write("a.toml", std::string("include = \"judged.toml\"\n") + added);
    EXPECT_EQ(load_error(file), "[recipe] " + file + ":3:1: 'augment' is not mutable in " + base +
                                    ", which judges what it measures by [accept]: with another value it is another "
                                    "benchmark; mutable: batch, seed, and what does not change the measurement "
                                    "(seed, threads, ranks, ...)")
        << added;
  }
  const Recipe r = load_recipe(folder.write("b.toml",
                                            "include = \"judged.toml\"\nname = \"mine\"\n[mutable]\nbatch = 16\n"
                                            "threads = 2\nexport = \"x.npz\"\n[axes]\nseed = [3]\n"));
  EXPECT_EQ(r.changeable, Json::parse(R"({"batch":16,"threads":2,"export":"x.npz"})"));
}

TEST(Include, AJudgedOneMayLieDeeperOrBeside) {
  Folder folder;
  folder.write("judged.toml", judged);
  folder.write("between.toml", "include = \"judged.toml\"\n[mutable]\nthreads = 1\n");
  folder.write("beside.toml", "[mutable]\nepochs = 9\n");
  const std::string refused = "is not mutable in ";
  for (const char* text :
       {"include = \"between.toml\"\n[mutable]\nepochs = 9\n", "include = [\"between.toml\", \"beside.toml\"]\n",
        "include = [\"beside.toml\", \"judged.toml\"]\n"})
    EXPECT_THAT(load_error(folder.write("a.toml", text)), HasSubstr(":1: 'epochs' " + refused)) << text;
  // The level decides what is judged: it cannot be changed away.
  EXPECT_THAT(load_error(folder.write("b.toml", "include = \"judged.toml\"\nlevel = 1\n")),
              HasSubstr("b.toml:2:1: 'level' " + refused));
  EXPECT_EQ(load_recipe(folder.write("c.toml", "include = \"judged.toml\"\nlevel = 3\n")).kind, "train");
  // What a recipe includes is its own text, and an operator's recipe judges what it runs.
  folder.write("base.toml", "level = 2\n[fixed]\nepochs = 2\n[mutable]\nbatch = 8\n");
  const std::string judge = "include = \"base.toml\"\n[fixed]\nnetwork = \"lenet\"\ntarget = 0.9\n";
  EXPECT_EQ(load_error(folder.write("judge.toml", judge)), "no error");
  EXPECT_THAT(load_error(folder.write("d.toml", "include = \"judge.toml\"\n[mutable]\ndepth = 9\n")),
              HasSubstr("'depth' " + refused));
  folder.write("op.toml", "level = 0\n[fixed]\noperator = \"Gemm\"\n[accept]\nshare = \">= 0.1\"\n");
  EXPECT_EQ(load_error(folder.write("e.toml", "include = \"op.toml\"\n[mutable]\nm = 9\n")), "no error");
}

TEST(Include, CyclesAreShown) {
  Folder folder;
  folder.write("b.toml", "include = \"./c.toml\"\n");
  folder.write("c.toml", "\n  include = [\"a.toml\"]\n");
  const std::string error = load_error(folder.write("a.toml", "include = [\"b.toml\"]\n"));
  EXPECT_THAT(error, HasSubstr("c.toml:2:3: a recipe that includes itself: "));
  EXPECT_THAT(error, HasSubstr("a.toml -> "));
  EXPECT_THAT(error, ::testing::EndsWith("a.toml"));
  EXPECT_THAT(load_error(folder.write("self.toml", "include = \"self.toml\"\n")),
              HasSubstr("self.toml:1:1: a recipe that includes itself"));
}

TEST(Include, MissingFilesAreNamed) {
  Folder folder;
  EXPECT_THAT(load_error("no/such.toml"), StartsWith("[recipe] no/such.toml: cannot read the file"));
  const std::string error = load_error(folder.write("a.toml", "include = [\"none.toml\"]\n"));
  EXPECT_THAT(error, HasSubstr("a.toml:1:1: include "));
  EXPECT_THAT(error, HasSubstr("none.toml: cannot read the file"));
  EXPECT_THAT(load_error(folder.write("b.toml", "include = [3]\n")), HasSubstr("b.toml:1:1: include must name files"));
  EXPECT_THAT(load_error("/tmp"), HasSubstr("cannot read the file"));
}

}  // namespace
}  // namespace d5
