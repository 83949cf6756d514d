// SPDX-License-Identifier: Apache-2.0
// A network of 100 MB is loaded in little more time than its file can be read.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "d5/graph/onnx/read.hpp"
#include "d5/graph/onnx/write.hpp"
#include "tests/sanitized.hpp"
#include "tests/unit/graph/graphs.hpp"

namespace d5 {
namespace {

template <class F>
double seconds(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void read_whole(const std::filesystem::path& path, size_t bytes) {
  const std::unique_ptr<char[]> buffer(new char[bytes]);
  const int file = open(path.c_str(), O_RDONLY);
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = read(file, buffer.get() + done, bytes - done);
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  close(file);
  ASSERT_EQ(done, bytes);
}

TEST(LoadTime, IsThatOfReadingTheFile) {
  if (sanitized) GTEST_SKIP() << "sanitizers have times of their own";
  const Folder folder;
  Graph graph{.name = "large", .inputs = {input("x", {1, 700})}, .outputs = {"y49"}};
  for (int i = 0; i < 50; ++i) {
    const std::string from = i == 0 ? "x" : fmt::format("y{}", i - 1);
    const Tensor weights(DType::f32, {700, 700});
    weights.fill_bytes(static_cast<unsigned char>(i));
    graph.constants[fmt::format("w{}", i)] = weights;
    graph.nodes.push_back(node("MatMul", {from, fmt::format("w{}", i)}, {fmt::format("y{}", i)}));
  }
  write_onnx(graph, folder / "large.onnx");
  const size_t bytes = std::filesystem::file_size(folder / "large.onnx");
  ASSERT_GT(bytes, 98'000'000u);
  // The least of several, in turns: what the file costs, not what a neighbour does.
  double reading = 1e9, loading = 1e9;
  for (int round = 0; round < 9; ++round) {
    reading = std::min(reading, seconds([&] { read_whole(folder / "large.onnx", bytes); }));
    loading = std::min(loading, seconds([&] { EXPECT_EQ(read_onnx(folder / "large.onnx").constants.size(), 50u); }));
  }
  RecordProperty("ratio", fmt::format("{:.3f}", loading / reading));
  EXPECT_LT(loading, 1.5 * reading) << "loading " << loading << " s, reading " << reading << " s";
}

}  // namespace
}  // namespace d5
