// SPDX-License-Identifier: Apache-2.0
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(Add, CasesHold) { expect_cases_hold("Add"); }

}  // namespace
}  // namespace d5
