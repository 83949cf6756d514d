// SPDX-License-Identifier: Apache-2.0
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(Relu, CasesHold) { expect_cases_hold("Relu"); }

}  // namespace
}  // namespace d5
