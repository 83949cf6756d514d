// SPDX-License-Identifier: Apache-2.0
// What holds for every elementwise operator and loss.
#include "run_operator.hpp"

namespace d5 {
namespace {

class Elementwise : public testing::TestWithParam<const char*> {};
TEST_P(Elementwise, CasesHold) { expect_cases_hold(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Operators, Elementwise,
                         testing::Values("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Exp", "Log", "Sqrt",
                                         "Reciprocal", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh",
                                         "Cosh", "Asinh", "Acosh", "Atanh", "LeakyRelu", "ThresholdedRelu", "Elu",
                                         "Celu", "Selu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Gelu",
                                         "Softplus", "Softsign", "Mish", "Swish", "Sub", "Mul", "Div", "Pow", "Mod",
                                         "Sum", "Mean", "Max", "Min", "Where", "Clip", "PRelu", "Identity",
                                         "LogSoftmax", "Dropout", "MeanSquaredError", "BinaryCrossEntropy",
                                         "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "CrossEntropy"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace d5
