// SPDX-License-Identifier: Apache-2.0
// Small networks for tests, written as a user would: one call per layer, parameters named after it.
#pragma once

#include "d5/backends/backend.hpp"

namespace d5::small {

class Builder {
 public:
  explicit Builder(std::string name) { graph_.name = std::move(name); }

  std::string input(const std::string& name, Shape shape, DType type = DType::f32) {
    graph_.inputs.push_back({name, {type, shape}});
    shapes_[name] = std::move(shape);
    return name;
  }
  std::string parameter(const std::string& name, Shape shape, bool differentiable = true) {
    graph_.inputs.push_back({name, {DType::f32, shape}, true, differentiable});
    shapes_[name] = std::move(shape);
    return name;
  }
  std::string constant(const std::string& name, const Tensor& value) {
    graph_.constants[name] = value;
    shapes_[name] = value.shape();
    return name;
  }
  std::string node(const std::string& op, std::vector<std::string> inputs, Attributes attributes = {},
                   size_t outputs = 1) {
    const std::string name = fmt::format("{}{}", op, count_++);
    Node node{op, name, std::move(inputs), {}, std::move(attributes)};
    for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(i == 0 ? name + ".y" : fmt::format("{}.y{}", name, i));
    std::vector<TensorSpec> specs;
    for (const std::string& in : node.inputs) {
      if (in.empty()) {
        specs.push_back(TensorSpec::absent());
        continue;
      }
      TensorSpec spec{type_of(in), shapes_.at(in)};
      if (graph_.constants.contains(in)) spec.known = std::make_shared<const Tensor>(graph_.constants.at(in));
      specs.push_back(spec);
    }
    const auto made = make_operator(node)->infer(specs);
    for (size_t i = 0; i < outputs; ++i) {
      shapes_[node.outputs[i]] = made[i].shape;
      types_[node.outputs[i]] = made[i].dtype;
    }
    graph_.nodes.push_back(node);
    return graph_.nodes.back().outputs[0];
  }

  std::string conv(const std::string& x, Index channels, Index kernel, Index stride = 1, Index pad = 0,
                   Index groups = 1, bool bias = false) {
    const std::string w =
        parameter(fmt::format("conv{}.w", count_), {channels, shapes_.at(x)[1] / groups, kernel, kernel});
    std::vector<std::string> inputs{x, w};
    if (bias) inputs.push_back(parameter(fmt::format("conv{}.b", count_), {channels}));
    return node("Conv", inputs,
                {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
                 {"strides", std::vector<int64_t>{stride, stride}},
                 {"pads", std::vector<int64_t>{pad, pad, pad, pad}},
                 {"group", groups}});
  }
  std::string norm(const std::string& x, bool training) {
    const Index c = shapes_.at(x)[1];
    const std::string n = fmt::format("bn{}", count_);
    const std::vector<std::string> inputs{x, parameter(n + ".scale", {c}), parameter(n + ".shift", {c}),
                                          parameter(n + ".mean", {c}, false), parameter(n + ".var", {c}, false)};
    const std::string y = node("BatchNormalization", inputs, {{"training_mode", int64_t{training}}}, training ? 3 : 1);
    return y;
  }
  std::string relu(const std::string& x) { return node("Relu", {x}); }
  std::string add(const std::string& a, const std::string& b) { return node("Add", {a, b}); }
  std::string pool(const std::string& x, Index kernel, Index stride, const char* op = "MaxPool") {
    return node(
        op, {x},
        {{"kernel_shape", std::vector<int64_t>{kernel, kernel}}, {"strides", std::vector<int64_t>{stride, stride}}});
  }
  std::string dense(const std::string& x, Index features) {
    const std::string n = fmt::format("fc{}", count_);
    return node("Gemm", {x, parameter(n + ".w", {features, shapes_.at(x)[1]}), parameter(n + ".b", {features})},
                {{"transB", int64_t{1}}});
  }
  std::string linear(const std::string& x, Index features) {
    const std::string n = fmt::format("linear{}", count_);
    const std::string y = node("MatMul", {x, parameter(n + ".w", {shapes_.at(x).back(), features})});
    return add(y, parameter(n + ".b", {features}));
  }
  std::string layer_norm(const std::string& x) {
    const std::string n = fmt::format("ln{}", count_);
    const Index d = shapes_.at(x).back();
    return node("LayerNormalization", {x, parameter(n + ".scale", {d}), parameter(n + ".bias", {d})});
  }
  std::string reshape(const std::string& x, std::vector<int64_t> sizes) {
    const auto n = static_cast<Index>(sizes.size());
    const std::string shape = constant(fmt::format("shape{}", count_), Tensor::from<int64_t>({n}, sizes));
    return node("Reshape", {x, shape});
  }
  std::string transpose(const std::string& x, std::vector<int64_t> perm) {
    return node("Transpose", {x}, {{"perm", std::move(perm)}});
  }

  const Shape& shape(const std::string& value) const { return shapes_.at(value); }
  Graph finish(std::vector<std::string> outputs) {
    graph_.outputs = std::move(outputs);
    return graph_;
  }

 private:
  DType type_of(const std::string& value) const {
    for (const GraphInput& input : graph_.inputs)
      if (input.name == value) return input.spec.dtype;
    if (graph_.constants.contains(value)) return graph_.constants.at(value).dtype();
    return types_.at(value);
  }
  Graph graph_;
  std::map<std::string, Shape> shapes_;
  std::map<std::string, DType> types_;
  size_t count_ = 0;
};

// Two residual blocks of different widths, a pool, a classifier.
inline Graph residual(bool training, Index batch = 2, Index channels = 16) {
  Builder b("residual");
  const std::string x = b.input("x", {batch, 3, 12, 12});
  std::string h = b.relu(b.norm(b.conv(x, channels, 3, 1, 1), training));
  h = b.pool(h, 2, 2);
  for (const Index width : {channels, 2 * channels}) {
    const Index stride = width == channels ? 1 : 2;
    std::string y = b.relu(b.norm(b.conv(h, width, 3, stride, 1), training));
    y = b.norm(b.conv(y, width, 3, 1, 1), training);
    if (stride > 1) h = b.norm(b.conv(h, width, 1, stride, 0), training);
    h = b.relu(b.add(y, h));
  }
  h = b.node("Flatten", {b.node("GlobalAveragePool", {h})});
  return b.finish({b.dense(h, 10)});
}

// Convolutions with biases, pools, and three products: LeNet-5.
inline Graph lenet(Index batch = 2) {
  Builder b("lenet");
  std::string h = b.input("x", {batch, 1, 28, 28});
  h = b.pool(b.relu(b.conv(h, 6, 5, 1, 2, 1, true)), 2, 2);
  h = b.pool(b.relu(b.conv(h, 16, 5, 1, 0, 1, true)), 2, 2);
  h = b.node("Flatten", {h});
  return b.finish({b.dense(b.relu(b.dense(b.relu(b.dense(h, 120)), 84)), 10)});
}

// An inverted residual block, a squeeze-and-excitation gate, a concatenation along the channels.
inline Graph mobile(bool training, Index batch = 2) {
  Builder b("mobile");
  const std::string x = b.input("x", {batch, 16, 9, 9});
  const std::string low = b.constant("zero", Tensor::scalar(0, DType::f32));
  const std::string high = b.constant("six", Tensor::scalar(6, DType::f32));
  std::string h = b.node("Clip", {b.norm(b.conv(x, 32, 1), training), low, high});
  h = b.node("HardSwish", {b.norm(b.conv(h, 32, 3, 1, 1, 32), training)});
  const std::string gate = b.node("Sigmoid", {b.conv(b.node("GlobalAveragePool", {h}), 32, 1, 1, 0, 1, true)});
  h = b.node("Mul", {h, gate});
  h = b.add(b.norm(b.conv(h, 16, 1), training), x);
  const std::string both = b.node("Concat", {h, b.conv(h, 8, 3, 1, 1)}, {{"axis", int64_t{1}}});
  return b.finish({both, b.pool(both, 3, 1, "AveragePool")});
}

// A shortcut without parameters: every other pixel, from the last one on, and zero maps on both sides; then edges.
inline Graph shortcut(bool training, Index batch = 2) {
  Builder b("shortcut");
  const auto integers = [&](const std::string& name, const std::vector<int64_t>& values) {
    return b.constant(name, Tensor::from<int64_t>({static_cast<Index>(values.size())}, values));
  };
  std::string h = b.relu(b.norm(b.conv(b.input("x", {batch, 3, 9, 8}), 8, 3, 1, 1), training));
  std::string y = b.norm(b.conv(h, 20, 3, 2, 1), training);
  h = b.node("Slice", {h, integers("starts", {-1, 1}), integers("ends", {-100, 8}), integers("axes", {2, 3}),
                       integers("steps", {-2, 2})});
  h = b.node("Pad", {h, integers("maps", {0, 5, 0, 0, 0, 7, 0, 0})});
  h = b.relu(b.add(y, h));
  h = b.node("Pad", {h, integers("edges", {0, 0, 1, 2, 0, 0, 0, 1})}, {{"mode", std::string("edge")}});
  return b.finish({b.conv(h, 16, 3)});
}

// What lies the same in any order of axes, made of what does not: one pixel of several maps, one map of several.
inline Graph thin(bool training, Index batch = 2) {
  Builder b("thin");
  const auto integers = [&](const std::string& name, const std::vector<int64_t>& values) {
    return b.constant(name, Tensor::from<int64_t>({static_cast<Index>(values.size())}, values));
  };
  const std::string h = b.relu(b.norm(b.conv(b.input("x", {batch, 3, 4, 4}), 8, 3, 2, 1), training));
  const std::string pixel =
      b.node("Slice", {h, integers("starts", {1, 0}), integers("ends", {2, 1}), integers("axes", {2, 3})});
  const std::string maps = b.conv(h, 2, 1);
  const std::string map = b.node("Split", {maps}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{2}}}, 2);
  const std::string wide = b.node("Pad", {pixel, integers("edges", {0, 0, 1, 0, 0, 0, 0, 1})});
  return b.finish({b.conv(b.add(wide, map), 8, 1), b.node("Mul", {pixel, b.conv(h, 8, 2)})});
}

// Convolutions of 16 maps, which lie alike in blocks of 16 and channels last: alone, behind others, with a Relu.
inline Graph sixteen(bool training, Index batch = 2) {
  Builder b("sixteen");
  const std::string h = b.relu(b.norm(b.conv(b.input("x", {batch, 3, 6, 5}), 16, 3, 1, 1), training));
  const std::string rectified = b.relu(b.conv(h, 16, 3, 1, 1, 1, true));
  return b.finish({b.add(h, b.conv(rectified, 16, 3, 1, 1)), b.conv(rectified, 16, 1, 2)});
}

// One encoder block of a transformer, heads by Reshape and Transpose.
inline Graph encoder(Index batch = 2, Index length = 5, Index width = 16, Index heads = 2) {
  Builder b("encoder");
  const std::string x = b.input("x", {batch, length, width});
  const auto split = [&](const std::string& v, std::vector<int64_t> perm) {
    return b.transpose(b.reshape(v, {batch, length, heads, width / heads}), std::move(perm));
  };
  // Keys have no bias: a softmax does not see it, so that its gradient is zero.
  const std::string keys = b.node("MatMul", {x, b.parameter("keys.w", {width, width})});
  const std::string q = split(b.linear(x, width), {0, 2, 1, 3}), k = split(keys, {0, 2, 3, 1}),
                    v = split(b.linear(x, width), {0, 2, 1, 3});
  const std::string scale = b.constant("scale", Tensor::scalar(0.25, DType::f32));
  const std::string weights =
      b.node("Softmax", {b.node("Mul", {b.node("MatMul", {q, k}), scale})}, {{"axis", int64_t{-1}}});
  std::string h = b.reshape(b.transpose(b.node("MatMul", {weights, v}), {0, 2, 1, 3}), {batch, length, width});
  h = b.layer_norm(b.add(b.linear(h, width), x));
  const std::string f = b.linear(b.node("Gelu", {b.linear(h, 4 * width)}), width);
  return b.finish({b.layer_norm(b.add(f, h))});
}

}  // namespace d5::small
