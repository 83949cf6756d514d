// SPDX-License-Identifier: Apache-2.0
// Small graphs for tests, and a folder that goes away.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "d5/graph/evaluate.hpp"
#include "d5/graph/graph.hpp"

namespace d5 {

inline std::filesystem::path data_file(const std::string& name) {
  return std::filesystem::path(D5_SOURCE_DIR) / "tests/unit/graph/data" / name;
}

inline std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "d5-graph-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline Node node(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                 Attributes attributes = {}) {
  return {.op = op,
          .name = "",
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .attributes = std::move(attributes)};
}

inline GraphInput input(const std::string& name, Shape shape, DType type = DType::f32) {
  return {.name = name, .spec = {type, std::move(shape)}};
}

inline Tensor floats(Shape shape, const std::vector<float>& values) {
  return Tensor::from<float>(std::move(shape), values);
}
inline Tensor longs(Shape shape, const std::vector<int64_t>& values) {
  return Tensor::from<int64_t>(std::move(shape), values);
}

// A graph of one node of an old opset, with inputs x0, x1, ... of these tensors' types.
inline Graph one_node(const std::string& op, int64_t opset, const std::vector<Tensor>& inputs, Attributes attributes,
                      size_t outputs = 1) {
  Graph graph{.name = op};
  Node one{.op = op, .name = "n", .attributes = std::move(attributes)};
  for (size_t i = 0; i < inputs.size(); ++i) {
    one.inputs.push_back(inputs[i].present() ? "x" + std::to_string(i) : "");
    if (inputs[i].present()) graph.inputs.push_back(input(one.inputs[i], inputs[i].shape(), inputs[i].dtype()));
  }
  for (size_t i = 0; i < outputs; ++i) one.outputs.push_back("y" + std::to_string(i));
  graph.outputs = one.outputs;
  graph.nodes = {one};
  graph.opsets[""] = opset;
  return graph;
}

inline std::vector<GraphValue> run(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::map<std::string, GraphValue> values;
  for (size_t i = 0; i < inputs.size(); ++i) values["x" + std::to_string(i)] = inputs[i];
  return Evaluator(graph).run(values);
}

inline void expect_near(const Tensor& tensor, const Shape& shape, const std::vector<double>& wanted, double tolerance) {
  ASSERT_EQ(tensor.shape(), shape) << to_string(tensor.shape());
  const Tensor wide = tensor.cast(DType::f64);
  ASSERT_EQ(wide.elements(), static_cast<Index>(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(wide.values<double>()[i], wanted[i], tolerance) << "at " << i;
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace d5
