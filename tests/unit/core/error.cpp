// SPDX-License-Identifier: Apache-2.0
#include "d5/core/error.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace d5 {
namespace {

const std::vector<std::string> names{"Conv", "Gemm", "MatMul", "MaxPool", "Softmax"};

TEST(Error, FormatsAndGainsContext) {
  const Error error("[softmax] axis {} of {}", 3, "2x3");
  EXPECT_STREQ(error.what(), "[softmax] axis 3 of 2x3");
  EXPECT_STREQ(error.within("[onnx] model.onnx").what(), "[onnx] model.onnx: [softmax] axis 3 of 2x3");
}

TEST(Error, ATextWithBracesIsNoFormat) { EXPECT_STREQ(Error(std::string("{}")).what(), "{}"); }

TEST(Error, NearestNameCountsEditsAndIgnoresCase) {
  EXPECT_EQ(nearest_name("gem", names), "Gemm");
  EXPECT_EQ(nearest_name("MAXPOL", names), "MaxPool");
  EXPECT_EQ(nearest_name("softmaxx", names), "Softmax");
  EXPECT_EQ(nearest_name("Transpose", names), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(Error, UnknownNameSaysTheNearestAndTheLegalOnes) {
  try {
    fail_unknown("[op]", "operator", "Gem", names);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "[op] unknown operator 'Gem'; did you mean 'Gemm'? Legal: Conv, Gemm, MatMul, MaxPool, Softmax");
  }
}

}  // namespace
}  // namespace d5
