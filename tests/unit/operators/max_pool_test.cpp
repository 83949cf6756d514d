// SPDX-License-Identifier: Apache-2.0
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(MaxPool, CasesHold) { expect_cases_hold("MaxPool"); }

}  // namespace
}  // namespace d5
