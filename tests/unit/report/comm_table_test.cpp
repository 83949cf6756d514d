// SPDX-License-Identifier: Apache-2.0
#include "d5/report/comm_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample_records.hpp"

namespace d5 {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Record collective(const std::string& algorithm, double seconds, int rounds = 2) {
  Record r;
  r.kind = "comm";
  r.status = "passed";
  r.group = "g";
  r.fields = {{"collective", "allreduce"},
              {"dtype", "f32"},
              {"reduction", "sum"},
              {"ranks", 2},
              {"communicator", "mpi"},
              {"density", 1.0},
              {"bytes", 1024},
              {"algorithm", algorithm},
              {"hosts", ""}};
  r.samples = samples_of(1, rounds, [&](int, int) { return seconds; });
  r.metrics = {{"time", {"s", seconds, {}, 6, 6}}};
  r.details["tails"]["p95"]["value"] = seconds;
  return r;
}

TEST(CommTable, names_the_algorithm_that_the_others_are_compared_with) {
  const Record off = without_speed(collective("plain", 1), "unsupported", "no f16");
  const std::string text = comm_table(std::vector{off, collective("ring", 1), collective("tree", 2)}, false);
  EXPECT_THAT(text, HasSubstr("against ring"));
  EXPECT_THAT(text, HasSubstr("2.000 of its time"));
}

TEST(CommTable, a_warning_is_the_note_of_its_rows) {
  Record first = collective("plain", 1), second = collective("ring", 2), third = collective("tree", 3);
  first.warnings = {"all share it"};
  second.warnings = {"all share it", "of one row"};
  third.warnings = {"all share it"};
  const std::string text = comm_table(std::vector{first, second, third}, false);
  EXPECT_THAT(text, HasSubstr("[1] [2]\n"));
  EXPECT_THAT(text, HasSubstr("\n[1] all share it\n[2] of one row\n"));
}

TEST(CommTable, one_round_is_compared_too) {
  const std::string text = comm_table(std::vector{collective("plain", 1, 1), collective("ring", 3, 1)}, false);
  EXPECT_THAT(text, HasSubstr("3.000 of its time"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace d5
