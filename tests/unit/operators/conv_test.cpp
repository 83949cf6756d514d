// SPDX-License-Identifier: Apache-2.0
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(Conv, CasesHold) { expect_cases_hold("Conv"); }

}  // namespace
}  // namespace d5
