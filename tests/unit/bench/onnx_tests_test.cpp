// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <filesystem>

#include "d5/bench/session.hpp"
#include "d5/graph/onnx/values.hpp"
#include "d5/graph/onnx/write.hpp"
#include "tests/unit/graph/graphs.hpp"

namespace d5 {
namespace {

// (x + 1024) - 1024 behind 16 nodes that do nothing: a sum in f16 is off by up to a half, one in f32 by 6e-5. Stored is
// x itself, as a runtime has it that folds the two constants.
Outcome check_sums(DType type) {
  const Folder folder;
  Graph graph{.name = "g", .inputs = {input("x", {2}, type)}, .outputs = {"y"}};
  graph.constants = {{"k", Tensor::scalar(1024, type)}};
  for (int i = 0; i < 16; ++i)
    graph.nodes.push_back(node("Identity", {i == 0 ? "x" : fmt::format("h{}", i)}, {fmt::format("h{}", i + 1)}));
  graph.nodes.push_back(node("Add", {"h16", "k"}, {"sum"}));
  graph.nodes.push_back(node("Sub", {"sum", "k"}, {"y"}));
  write_onnx(graph, folder / "model.onnx");
  const auto set = folder / "test_data_set_0";
  std::filesystem::create_directory(set);
  const GraphValue x(Tensor::from<float>({2}, {0.25f, 100.0f}).cast(type));
  GraphValue y = x;
  if (type == DType::f32) y = GraphValue(Tensor::from<float>({2}, {0.26f, 100.0f}));
  write_onnx_value(x, set / "input_0.pb");
  write_onnx_value(y, set / "output_0.pb");
  const Json fields{
      {"kind", "onnx-test"}, {"test", "sums"}, {"folder", folder.path().string()}, {"backend", "reference"}};
  const Bench& bench = bench_of(fields);
  return bench.open(bench.complete(fields))->prepare(Depth::check);
}

TEST(OnnxTests, RoundingsAreThoseOfTheNarrowestFloats) {
  const Outcome narrow = check_sums(DType::f16);
  EXPECT_EQ(narrow.status, "passed") << narrow.reason;
  EXPECT_EQ(check_sums(DType::f32).status, "failed");  // off by 0.01
}

}  // namespace
}  // namespace d5
