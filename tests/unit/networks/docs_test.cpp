// SPDX-License-Identifier: Apache-2.0
// The table of docs/builtin-networks.md is what the program says.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tiny.hpp"

namespace d5 {
namespace {

std::string with_commas(Index number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string with_unit(double number) {
  return number >= 1e9 ? fmt::format("{:.4g} G", number * 1e-9) : fmt::format("{:.4g} M", number * 1e-6);
}

TEST(Docs, TableOfNetworks) {
  std::ifstream file(D5_SOURCE_DIR "/docs/builtin-networks.md");
  std::stringstream text;
  text << file.rdbuf();
  std::string table;
  for (const std::string& name : registry_names(networks::kind)) {
    const NetworkEntry& entry = registered<networks>(name);
    const NetworkFigures seen = figures(build_network(name, {}, 1, DType::f32, Mode::inference));
    table += fmt::format("| `{}` | {} | {} | {} | {} |\n", name, entry.about, with_commas(seen.parameters),
                         with_unit(seen.multiply_adds), entry.loss.empty() ? "-" : entry.loss);
  }
  EXPECT_NE(text.str().find("|---|---|---:|---:|---|\n" + table + "\n"), std::string::npos) << table;
}

}  // namespace
}  // namespace d5
