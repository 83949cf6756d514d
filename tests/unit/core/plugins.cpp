// SPDX-License-Identifier: Apache-2.0
#include "d5/core/plugins.hpp"

#include <gmock/gmock.h>

#include <cstdlib>

#include "d5/core/registry.hpp"

namespace d5 {
namespace {

// Published values of FNV-1a, 128 bits.
TEST(Plugins, ContentHash) {
  EXPECT_EQ(content_hash(""), "6c62272e07bb014262b821756295c58d");
  EXPECT_EQ(content_hash("a"), "d228cb696f1a8caf78912b704e4a8964");
  EXPECT_EQ(content_hash("foobar"), "343e1662793c64bf6f0d3597ba446f18");
}

TEST(Plugins, TheVariableIsAList) {
  setenv("D5_PLUGINS", "/a/b.so::c.so", 1);
  EXPECT_THAT(plugins_of_environment(), testing::ElementsAre("/a/b.so", "c.so"));
  unsetenv("D5_PLUGINS");
  EXPECT_TRUE(plugins_of_environment().empty());
}

TEST(Plugins, AFileThatIsNotThereIsAUsageErrorThatNamesIt) {
  EXPECT_THAT(
      [] {
        open_plugin({"--plugin", "none.so", "none.so", ""});
      },
      testing::ThrowsMessage<UsageError>(testing::HasSubstr("none.so cannot be read")));
  EXPECT_THAT([] { file_contents("/"); }, testing::ThrowsMessage<UsageError>("[plugin] / cannot be read"));
  EXPECT_TRUE(opened_plugins().empty());
}

}  // namespace
}  // namespace d5
