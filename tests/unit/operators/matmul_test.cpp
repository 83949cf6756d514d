// SPDX-License-Identifier: Apache-2.0
#include "run_operator.hpp"

namespace d5 {
namespace {

TEST(MatMul, CasesHold) { expect_cases_hold("MatMul"); }

}  // namespace
}  // namespace d5
