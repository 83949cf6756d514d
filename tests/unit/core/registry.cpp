// SPDX-License-Identifier: Apache-2.0
#include "d5/core/registry.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace d5 {

struct fruits {
  static constexpr const char* kind = "fruit";
  using Entry = int;
  template <class T>
  static Entry entry() {
    return T::sweetness;
  }
};

namespace {

struct Apple {
  static constexpr int sweetness = 5;
};
struct Lemon {
  static constexpr int sweetness = 1;
};
D5_REGISTER(fruits, "apple", Apple);
D5_REGISTER(fruits, "lemon", Lemon);

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Registry, FindsWhatARegistrationLineAdded) {
  EXPECT_EQ(registered<fruits>("apple"), 5);
  EXPECT_EQ(registered<fruits>("lemon"), 1);
  EXPECT_THAT(registry_names("fruit"), ElementsAre("apple", "lemon"));
  EXPECT_EQ(find_registered<fruits>("pear"), nullptr);
  EXPECT_TRUE(registry_names("nothing of that kind").empty());
}

TEST(Registry, AWrongNameGetsTheNearest) {
  EXPECT_THAT([] { registered<fruits>("aple"); },
              ThrowsMessage<UsageError>("[registry] unknown fruit 'aple'; did you mean 'apple'? Legal: apple, lemon"));
}

TEST(Registry, ALaterEntryReplacesAndTheOldReferenceStaysValid) {
  registry_add("number", "x", typeid(int), std::make_shared<const int>(1));
  const auto* first = static_cast<const int*>(registry_find("number", "x", typeid(int)).get());
  registry_add("number", "x", typeid(int), std::make_shared<const int>(2));
  EXPECT_EQ(*static_cast<const int*>(registry_find("number", "x", typeid(int)).get()), 2);
  EXPECT_EQ(*first, 1);
}

TEST(Registry, AnotherTypeIsAnError) {
  EXPECT_THAT([] { registry_find("fruit", "apple", typeid(double)); }, ThrowsMessage<Error>(HasSubstr("another type")));
}

class Plugin : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "d5-plugin-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  // The library made of this source, or empty where there is no compiler.
  std::string build(const std::string& source) const {
    std::ofstream(folder_ / "plugin.cpp") << source;
    const std::string library = (folder_ / "plugin.so").string();
    const std::string command =
        fmt::format("g++ -shared -fPIC -o '{}' '{}' 2>/dev/null", library, (folder_ / "plugin.cpp").string());
    return std::system(command.c_str()) == 0 ? library : "";
  }
  std::filesystem::path folder_;
};

TEST_F(Plugin, AFileThatIsNoLibraryIsNamed) {
  const std::string path = (folder_ / "plugin.so").string();
  EXPECT_THAT([&] { load_plugin(path); }, ThrowsMessage<Error>(HasSubstr("[plugin] " + path + " does not load")));
  std::ofstream(path) << "not a library";
  EXPECT_THAT([&] { load_plugin(path); }, ThrowsMessage<Error>(HasSubstr("[plugin] " + path + " does not load")));
}

TEST_F(Plugin, OneOfAnotherVersionSaysSo) {
  const std::string path = build(
      "namespace d5 { inline namespace abi_999 { void registry_add(int); } }\n"
      "static const int registration = (d5::registry_add(1), 0);\n");
  if (path.empty()) GTEST_SKIP() << "no g++ here";
  EXPECT_THAT([&] { load_plugin(path); }, ThrowsMessage<Error>(HasSubstr("was built for another version of libd5")));
}

TEST_F(Plugin, ItsConstructorsRun) {
  const std::string path = build(
      "#include <cstdlib>\n"
      "static const int registration = setenv(\"D5_TEST_PLUGIN\", \"loaded\", 1);\n");
  if (path.empty()) GTEST_SKIP() << "no g++ here";
  load_plugin(path);
  EXPECT_STREQ(std::getenv("D5_TEST_PLUGIN"), "loaded");
}

}  // namespace
}  // namespace d5
