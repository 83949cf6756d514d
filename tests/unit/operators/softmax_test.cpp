// SPDX-License-Identifier: Apache-2.0
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(Softmax, CasesHold) { expect_cases_hold("Softmax"); }

}  // namespace
}  // namespace d5
