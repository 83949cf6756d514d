// SPDX-License-Identifier: Apache-2.0
#include "d5/networks/builder.hpp"

#include <algorithm>

#include "d5/core/rng.hpp"
#include "d5/networks/form.hpp"

namespace d5 {

std::vector<Index> Extent::each(size_t axes) const {
  if (sizes_.size() == 1) return std::vector<Index>(axes, sizes_[0]);
  if (sizes_.size() != axes) throw Error("[builder] {} sizes are given where {} are wanted", sizes_.size(), axes);
  return sizes_;
}

std::vector<Index> Extent::pads(size_t axes) const {
  if (sizes_.size() == 2 * axes) return sizes_;
  std::vector<Index> both = each(axes);
  for (size_t i = 0; i < axes; ++i) both.push_back(both[i]);
  return both;
}

Builder::Builder(std::string name, Index batch, DType dtype) : batch_(batch), dtype_(dtype) {
  graph_.name = std::move(name);
  if (!is_float(dtype)) throw UsageError("[{}] a network of {}: a float type is wanted", graph_.name, d5::name(dtype));
}

void Builder::claim(const std::string& name) {
  if (!names_.insert(name).second) throw Error("[builder] {}: '{}' is there twice", graph_.name, name);
}

Edge Builder::add_input(GraphInput input) {
  claim(input.name);
  graph_.inputs.push_back(input);
  return {input.name, input.spec};
}

Edge Builder::input(const std::string& name, const std::vector<Index>& sizes) { return input(name, sizes, dtype_); }

Edge Builder::input(const std::string& name, const std::vector<Index>& sizes, DType type) {
  std::vector<Index> all{batch_};
  all.insert(all.end(), sizes.begin(), sizes.end());
  std::vector<std::string> symbols(all.size());
  symbols[0] = "N";
  return add_input(
      {.name = name, .spec = {type, Shape(all)}, .differentiable = is_float(type), .symbols = std::move(symbols)});
}

Edge Builder::parameter(const std::string& name, Shape shape, const std::string& initialiser) {
  return add_input({.name = name, .spec = {dtype_, std::move(shape)}, .parameter = true, .initialiser = initialiser});
}

Edge Builder::constant(const std::string& name, Tensor value) {
  const auto [found, fresh] = graph_.constants.emplace(name, std::move(value));
  return {name, {found->second.dtype(), found->second.shape(), std::make_shared<const Tensor>(found->second)}};
}

Edge Builder::constant(const std::string& name, const std::vector<int64_t>& list) {
  return constant(name, Tensor::from<int64_t>({static_cast<Index>(list.size())}, list));
}

std::vector<Edge> Builder::nodes(const std::string& op, const std::string& name, const std::vector<Edge>& inputs,
                                 size_t outputs, Attributes attributes) {
  Node node{.op = op, .name = name, .attributes = std::move(attributes)};
  std::vector<TensorSpec> in;
  for (const Edge& edge : inputs) {
    node.inputs.push_back(edge.name);
    in.push_back(edge.name.empty() ? TensorSpec::absent() : edge.spec);
  }
  std::vector<TensorSpec> out;
  try {
    out = make_operator(node)->infer(in);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw error.within(fmt::format("[{}] layer '{}'", graph_.name, name));
  }
  std::vector<Edge> made;
  for (size_t i = 0; i < outputs; ++i) {
    made.push_back({i == 0 ? name : fmt::format("{}:{}", name, i), out.at(i)});
    claim(made.back().name);
    node.outputs.push_back(made.back().name);
  }
  graph_.nodes.push_back(std::move(node));
  return made;
}

Edge Builder::node(const std::string& op, const std::string& name, const std::vector<Edge>& inputs,
                   Attributes attributes) {
  return nodes(op, name, inputs, 1, std::move(attributes)).front();
}

Attributes Builder::window(const Edge& x, const Extent& kernel, const Extent& stride, const Extent& pad) const {
  const size_t axes = x.spec.shape.rank() - 2;
  return {{"kernel_shape", kernel.each(axes)}, {"strides", stride.each(axes)}, {"pads", pad.pads(axes)}};
}

Edge Builder::conv(const std::string& name, const Edge& x, Index channels, Extent kernel, const ConvOptions& o) {
  const size_t axes = x.spec.shape.rank() - 2;
  std::vector<Index> sizes{channels, x.channels() / o.groups};
  for (const Index size : kernel.each(axes)) sizes.push_back(size);
  std::vector<Edge> inputs{x, parameter(name + ".weight", Shape(sizes), o.initialiser)};
  if (o.bias) inputs.push_back(parameter(name + ".bias", {channels}, "zeros"));
  Attributes attributes = window(x, kernel, o.stride, o.pad);
  attributes.set("dilations", o.dilation.each(axes));
  attributes.set("group", o.groups);
  return node("Conv", name, inputs, std::move(attributes));
}

Edge Builder::conv_transpose(const std::string& name, const Edge& x, Index channels, Extent kernel,
                             const ConvOptions& o) {
  const size_t axes = x.spec.shape.rank() - 2;
  std::vector<Index> sizes{x.channels(), channels / o.groups};
  for (const Index size : kernel.each(axes)) sizes.push_back(size);
  std::vector<Edge> inputs{x, parameter(name + ".weight", Shape(sizes), o.initialiser)};
  if (o.bias) inputs.push_back(parameter(name + ".bias", {channels}, "zeros"));
  Attributes attributes = window(x, kernel, o.stride, o.pad);
  attributes.set("dilations", o.dilation.each(axes));
  attributes.set("group", o.groups);
  return node("ConvTranspose", name, inputs, std::move(attributes));
}

Edge Builder::linear(const std::string& name, const Edge& x, Index width, const std::string& initialiser, bool bias) {
  std::vector<Edge> inputs{x, parameter(name + ".weight", {width, x.size(1)}, initialiser)};
  if (bias) inputs.push_back(parameter(name + ".bias", {width}, "zeros"));
  return node("Gemm", name, inputs, {{"transB", int64_t{1}}});
}

// What belongs to a channel stays in f32 where activations are narrower, as frameworks keep it.
Edge Builder::batch_norm(const std::string& name, const Edge& x, const NormOptions& o) {
  const TensorSpec channels{bits(dtype_) < 32 ? DType::f32 : dtype_, {x.channels()}};
  const auto add = [&](const char* what, const std::string& initialiser, bool trainable) {
    return add_input({.name = name + what,
                      .spec = channels,
                      .parameter = true,
                      .differentiable = trainable,
                      .initialiser = initialiser});
  };
  const Edge scale = add(".weight", o.initialiser, true), bias = add(".bias", "zeros", true);
  const Edge mean = add(".running_mean", "zeros", false), variance = add(".running_var", "ones", false);
  return node("BatchNormalization", name, {x, scale, bias, mean, variance},
              {{"epsilon", o.epsilon}, {"momentum", o.momentum}});
}

Edge Builder::layer_norm(const std::string& name, const Edge& x, double epsilon) {
  const Index width = x.spec.shape.back();
  return node("LayerNormalization", name,
              {x, parameter(name + ".weight", {width}, "ones"), parameter(name + ".bias", {width}, "zeros")},
              {{"axis", int64_t{-1}}, {"epsilon", epsilon}});
}

Edge Builder::max_pool(const std::string& name, const Edge& x, Extent kernel, const PoolOptions& o) {
  Attributes attributes = window(x, kernel, o.stride, o.pad);
  if (o.ceil) attributes.set("ceil_mode", int64_t{1});
  return node("MaxPool", name, {x}, std::move(attributes));
}

Edge Builder::average_pool(const std::string& name, const Edge& x, Extent kernel, const PoolOptions& o) {
  Attributes attributes = window(x, kernel, o.stride, o.pad);
  if (o.ceil) attributes.set("ceil_mode", int64_t{1});
  if (o.count_pad) attributes.set("count_include_pad", int64_t{1});
  return node("AveragePool", name, {x}, std::move(attributes));
}

Edge Builder::global_average_pool(const std::string& name, const Edge& x) {
  return flatten(name + ".flatten", node("GlobalAveragePool", name, {x}));
}

// Every layer drops what no other drops: the seed is made of its name.
Edge Builder::dropout(const std::string& name, const Edge& x, double ratio) {
  if (ratio == 0) return x;
  const auto seed = static_cast<int64_t>(stream_of(name) & 0x7fffffff);
  return node("Dropout", name,
              {x, constant(fmt::format("ratio {}", ratio), Tensor::scalar(ratio, DType::f32)),
               constant("true", Tensor::scalar(1, DType::boolean))},
              {{"seed", seed}});
}

Edge Builder::concat(const std::string& name, const std::vector<Edge>& all, int64_t axis) {
  return node("Concat", name, all, {{"axis", axis}});
}

Edge Builder::reshape(const std::string& name, const Edge& x, const std::vector<int64_t>& sizes) {
  return node("Reshape", name, {x, constant(name + ".shape", sizes)});
}

Edge Builder::embedding(const std::string& name, const Edge& numbers, Index rows, Index width,
                        const std::string& initialiser) {
  return node("Gather", name, {parameter(name + ".weight", {rows, width}, initialiser), numbers});
}

Graph Builder::finish(const std::vector<std::pair<std::string, Edge>>& outputs) {
  for (const auto& [wanted, edge] : outputs) {
    const std::string& was = edge.name;
    bool made = false;
    for (Node& node : graph_.nodes) {
      for (std::string& name : node.outputs)
        if (name == was) {
          name = wanted;
          made = true;
        }
      std::ranges::replace(node.inputs, was, wanted);
    }
    if (!made) throw Error("[builder] {}: output '{}' is made by no node", graph_.name, wanted);
    graph_.outputs.push_back(wanted);
  }
  return training_form(std::move(graph_));
}

}  // namespace d5
