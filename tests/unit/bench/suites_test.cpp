// SPDX-License-Identifier: Apache-2.0
// The suites that come with deep500: every row is a case, and says what its source says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "d5/bench/session.hpp"
#include "d5/operators/operator.hpp"
#include "d5/recipe/suite.hpp"

namespace d5 {
namespace {

class Suites : public testing::Test {
 protected:
  Suites() { setenv("D5_SUITE_PATH", D5_SOURCE_DIR "/suites", 1); }
  ~Suites() override { unsetenv("D5_SUITE_PATH"); }
};

TEST_F(Suites, EveryRowIsACase) {
  ASSERT_GE(suite_names().size(), 8u);
  for (const std::string& name : suite_names()) {
    Recipe recipe{.blocks = {{.values = {{"suite", name}}}}};
    const auto problems = resolve_suites(
        recipe, [](const Json& fields) { return bench_of(fields).complete(fields); },
        [](const Json& fields) { bench_of(fields).check_case(fields); });
    EXPECT_THAT(problems, testing::IsEmpty()) << name;
    EXPECT_FALSE(load_suite(name).about.empty()) << name;
  }
}

// Whatever a row does to its operator, it is named and the others are cases.
TEST_F(Suites, BadRowsAreNamedAndTheOthersAreCases) {
  const std::string file = testing::TempDir() + "bad-rows.csv";
  std::ofstream(file) << "operator,shape,threads\nRelu,2x3,1\n5,2x3,1\nRelu,2x3,\xff\nScatterND,4611686018427387904,1\n"
                         "Gather,0x3,1\nRelu,4,1\n";
  Recipe recipe{.kind = "op", .blocks = {{.values = {{"suite", file}}}}};
  const auto problems = resolve_suites(
      recipe, [](const Json& fields) { return bench_of(fields).complete(fields); },
      [](const Json& fields) { bench_of(fields).check_case(fields); });
  ASSERT_EQ(problems.size(), 4u);
  EXPECT_THAT(problems[0], testing::HasSubstr("bad-rows.csv:3:1: [op] operator is 5; a name is wanted"));
  EXPECT_THAT(problems[1], testing::HasSubstr("bad-rows.csv:4:10:"));
  EXPECT_THAT(problems[3], testing::HasSubstr("of an empty axis none is legal"));
  EXPECT_EQ(recipe.blocks.size(), 2u);
}

// The counts that DeepBench publishes.
TEST_F(Suites, DeepBenchIsWhole) {
  const auto sets = [](const std::string& name) {
    std::map<std::string, int> counts;
    for (const SuiteRow& row : load_suite(name).rows) ++counts[row.set];
    return counts;
  };
  using Counts = std::map<std::string, int>;
  EXPECT_EQ(sets("deepbench-gemm"), (Counts{{"training", 160}, {"inference_server", 75}, {"inference_device", 13}}));
  EXPECT_EQ(sets("deepbench-conv"), (Counts{{"training", 94}, {"inference_server", 107}, {"inference_device", 16}}));
  EXPECT_EQ(sets("deepbench-rnn"), (Counts{{"training", 53}, {"inference_server", 69}, {"inference_device", 3}}));
  EXPECT_EQ(sets("deepbench-sparse-gemm"), (Counts{{"inference_server", 24}, {"inference_device", 8}}));
}

// ResNet-50 has 53 convolutions of 4.09e9 multiply-adds an image. The suite has each distinct one once.
TEST_F(Suites, ResNetHasItsDistinctConvolutions) {
  double first = 0;
  int convolutions = 0;
  for (const SuiteRow& row : load_suite("resnet50-layers").rows) {
    if (row.set != "batch1" || row.fields["operator"] != "Conv") continue;
    Json fields = row.fields;
    fields["kind"] = "op";
    const Json complete = bench_of(fields).complete(fields);
    Json values = row.fields;
    values.erase("operator");
    const OperatorEntry& entry = registered<operators>("Conv");
    const OperatorCase one = entry.describe(complete_values("Conv", entry, attributes_from_json(values)), DType::f32);
    const double flops = entry.make(one.attributes)->cost(one.specs(), Pass::forward).flops;
    if (convolutions++ == 0) first = flops;
  }
  EXPECT_EQ(convolutions, 23);
  // 7x7, stride 2, 3 -> 64 channels at 112 x 112: 2 * 112^2 * 64 * 147 if no tap fell into the padding.
  EXPECT_NEAR(first, 2.0 * 112 * 112 * 64 * 147, 0.04 * first);
}

// The claim in the header of deepbench-gemm: the same bytes give the same product. DeepBench: C = op(A) op(B) in
// column-major order, m x n x k; ours: Gemm of n x m x k on (B, A), row-major, with the transpositions exchanged.
TEST_F(Suites, TheRowMajorProductIsTheColumnMajorOne) {
  constexpr Index m = 3, n = 4, k = 5;
  std::vector<double> a(m * k), b(k * n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i * i % 7) - 3;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<double>(i * 3 % 11) - 5;
  for (const bool a_t : {false, true})
    for (const bool b_t : {false, true}) {
      // Column-major: element (i, j) of a matrix with `rows` rows lies at i + j rows.
      std::vector<double> c(m * n, 0.0);
      for (Index i = 0; i < m; ++i)
        for (Index j = 0; j < n; ++j)
          for (Index l = 0; l < k; ++l)
            c[i + j * m] += (a_t ? a[l + i * k] : a[i + l * m]) * (b_t ? b[j + l * n] : b[l + j * k]);
      const auto gemm = registered<operators>("Gemm").make({{"transA", int64_t{b_t}}, {"transB", int64_t{a_t}}});
      Context context;
      context.inputs = {Tensor::from<double>(b_t ? Shape{k, n} : Shape{n, k}, b),
                        Tensor::from<double>(a_t ? Shape{m, k} : Shape{k, m}, a)};
      context.outputs = {Tensor(DType::f64, {n, m})};
      gemm->forward(context);
      const auto y = context.outputs[0].values<double>();
      EXPECT_EQ(std::vector<double>(y.begin(), y.end()), c) << a_t << b_t;
    }
}

}  // namespace
}  // namespace d5
