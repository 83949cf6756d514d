// SPDX-License-Identifier: Apache-2.0
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(BatchNormalization, CasesHold) { expect_cases_hold("BatchNormalization"); }

}  // namespace
}  // namespace d5
