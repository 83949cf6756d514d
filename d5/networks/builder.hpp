// SPDX-License-Identifier: Apache-2.0
// Writes a network down as one would on a blackboard:
//   Builder b("lenet", batch, dtype);
//   Edge x = b.input("image", {1, 28, 28});
//   x = b.conv("conv1", x, 6, 5, {.pad = 2});
//   ...
//   return b.finish({{"scores", x}});
// Names are PyTorch's: the weight of layer "layer1.0.conv1" is "layer1.0.conv1.weight". A node and its first output
// have the layer's name. Nothing depends on the batch but the first axis of data inputs, which is the symbol "N".
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "d5/graph/graph.hpp"

namespace d5 {

// A value of the graph under construction.
struct Edge {
  std::string name;
  TensorSpec spec;

  Index size(size_t axis) const { return spec.shape[axis]; }
  Index channels() const { return spec.shape[1]; }
};

// One size for all spatial axes or one for each; pads may also be ONNX's list, begins first, then ends.
class Extent {
 public:
  Extent(Index size) : sizes_{size} {}  // NOLINT: 3 is what one writes
  Extent(std::initializer_list<Index> sizes) : sizes_(sizes) {}
  std::vector<Index> each(size_t axes) const;  // Error where it fits neither way
  std::vector<Index> pads(size_t axes) const;

 private:
  std::vector<Index> sizes_;
};

struct ConvOptions {
  Extent stride = 1, pad = 0, dilation = 1;
  Index groups = 1;
  bool bias = true;
  std::string initialiser = "he";  // of the weight
};

struct PoolOptions {
  Extent stride = 1, pad = 0;
  bool ceil = false;       // the last window may reach beyond the end
  bool count_pad = false;  // an average counts the padding
};

struct NormOptions {
  double epsilon = 1e-5;
  double momentum = 0.9;             // share of the old running statistics
  std::string initialiser = "ones";  // of the scale
};

class Builder {
 public:
  Builder(std::string name, Index batch, DType dtype);

  DType dtype() const { return dtype_; }

  // Data of shape N x sizes. Integers are not differentiable.
  Edge input(const std::string& name, const std::vector<Index>& sizes);
  Edge input(const std::string& name, const std::vector<Index>& sizes, DType);
  Edge parameter(const std::string& name, Shape shape, const std::string& initialiser);
  Edge constant(const std::string& name, Tensor value);  // the same name again: the same constant
  Edge constant(const std::string& name, const std::vector<int64_t>& list);

  // Any operator. An input with an empty name is absent. Outputs after the first are named "name:1", ...
  Edge node(const std::string& op, const std::string& name, const std::vector<Edge>& inputs, Attributes = {});
  std::vector<Edge> nodes(const std::string& op, const std::string& name, const std::vector<Edge>& inputs,
                          size_t outputs, Attributes = {});

  Edge conv(const std::string& name, const Edge& x, Index channels, Extent kernel, const ConvOptions& = {});
  Edge conv_transpose(const std::string& name, const Edge& x, Index channels, Extent kernel, const ConvOptions& = {});
  // Over the last axis of a matrix.
  Edge linear(const std::string& name, const Edge& x, Index width, const std::string& initialiser = "he",
              bool bias = true);
  Edge batch_norm(const std::string& name, const Edge& x, const NormOptions& = {});
  Edge layer_norm(const std::string& name, const Edge& x, double epsilon = 1e-5);
  Edge max_pool(const std::string& name, const Edge& x, Extent kernel, const PoolOptions& = {});
  Edge average_pool(const std::string& name, const Edge& x, Extent kernel, const PoolOptions& = {});
  Edge global_average_pool(const std::string& name, const Edge& x);    // N x C
  Edge dropout(const std::string& name, const Edge& x, double ratio);  // x itself where the ratio is 0
  Edge relu(const std::string& name, const Edge& x) { return node("Relu", name, {x}); }
  Edge add(const std::string& name, const Edge& a, const Edge& b) { return node("Add", name, {a, b}); }
  Edge concat(const std::string& name, const std::vector<Edge>& all, int64_t axis = 1);
  Edge flatten(const std::string& name, const Edge& x) { return node("Flatten", name, {x}); }
  // ONNX's rule: 0 copies a size, -1 is what is left.
  Edge reshape(const std::string& name, const Edge& x, const std::vector<int64_t>& sizes);
  // Rows of a table, chosen by numbers.
  Edge embedding(const std::string& name, const Edge& numbers, Index rows, Index width,
                 const std::string& initialiser = "normal:0.02");

  // In its training form (form.hpp). The values that are outputs get the names given here; Error where one is an input.
  Graph finish(const std::vector<std::pair<std::string, Edge>>& outputs);

 private:
  Edge add_input(GraphInput);
  void claim(const std::string& name);  // Error where a value has that name already
  Attributes window(const Edge& x, const Extent& kernel, const Extent& stride, const Extent& pad) const;
  Graph graph_;
  std::set<std::string> names_;
  Index batch_;
  DType dtype_;
};

}  // namespace d5
