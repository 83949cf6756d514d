// SPDX-License-Identifier: Apache-2.0
// Small networks of random layers, the same for the same seed: convolutions, normalisation, activations, pools, sums
// and concatenations of whatever came before, products at the end. Some have two outputs, sizes that can be computed
// before the run, and nodes that nothing depends on.
#pragma once

#include <vector>

#include "d5/backends/backend.hpp"
#include "d5/core/rng.hpp"
#include "d5/networks/builder.hpp"
#include "d5/networks/form.hpp"

namespace d5 {

class RandomNetwork {
 public:
  RandomNetwork(uint64_t seed, Index batch) : rng_(seed), b_("random", batch, DType::f32) {
    const Index size = 5 + below(4);
    made_.push_back(b_.input("image", {1 + below(3), size, size}));
  }

  Graph build(Mode mode) {
    const Index layers = 4 + below(6);
    for (Index i = 0; i < layers; ++i) add_layer("layer" + std::to_string(i));
    Edge x = made_.back();
    if (below(2) == 0) b_.node("Tanh", "dead", {x});
    std::vector<std::pair<std::string, Edge>> outputs;
    if (below(3) == 0) outputs.push_back({"features", b_.node("Sigmoid", "squashed", {x})});
    x = below(2) == 0 ? b_.global_average_pool("mean", x) : flat(x);
    if (below(2) == 0) x = b_.relu("hidden.relu", b_.linear("hidden", x, 2 + below(4)));
    outputs.push_back({"scores", b_.linear("last", x, 2 + below(3))});
    Graph graph = b_.finish(outputs);
    return mode == Mode::training ? graph : inference_form(std::move(graph));
  }

 private:
  Index below(uint64_t bound) { return static_cast<Index>(rng_.next_below(bound)); }

  // The size that is kept is read from the value itself, as exporters write it.
  Edge flat(const Edge& x) {
    const Edge shape = b_.node("Shape", "sizes", {x}, {{"end", int64_t{1}}});
    const Edge rest = b_.constant("rest", std::vector<int64_t>{-1});
    return b_.node("Reshape", "flat", {x, b_.node("Concat", "wanted", {shape, rest}, {{"axis", int64_t{0}}})});
  }

  // The last value before with such a shape, or x itself.
  template <class Fits>
  Edge partner(const Edge& x, const Fits& fits) const {
    for (size_t i = made_.size() - 1; i-- > 0;)
      if (fits(made_[i].spec.shape)) return made_[i];
    return x;
  }

  void add_layer(const std::string& name) {
    const Edge& x = made_.back();
    const Shape shape = x.spec.shape;
    const bool large = shape[2] >= 4;
    Edge y;
    switch (below(8)) {
      case 0: {
        const Index kernel = large && below(2) == 0 ? 3 : 1, groups = below(2) == 0 && shape[1] % 2 == 0 ? 2 : 1;
        const ConvOptions options{
            .stride = large ? 1 + below(2) : 1, .pad = kernel / 2, .groups = groups, .bias = below(2) == 0};
        y = b_.conv(name, x, groups * (1 + below(3)), kernel, options);
        break;
      }
      case 1: y = b_.batch_norm(name, x); break;
      case 2: y = b_.relu(name, b_.batch_norm(name + ".norm", b_.conv(name + ".conv", x, 4, 3, {.pad = 1}))); break;
      case 3: y = b_.node(below(2) == 0 ? "Tanh" : "Relu", name, {x}); break;
      case 4: y = b_.add(name, x, partner(x, [&](const Shape& s) { return s == shape; })); break;
      case 5:
        y = b_.concat(name, {x, partner(x, [&](const Shape& s) { return s[2] == shape[2] && s[3] == shape[3]; })});
        break;
      case 6: y = large ? b_.max_pool(name, x, 2, {.stride = 1 + below(2)}) : b_.average_pool(name, x, 1); break;
      default:  // a power of two is the same in every float type
        y = b_.node("Mul", name, {x, b_.constant("half", Tensor::scalar(0.5, DType::f32))});
    }
    made_.push_back(y);
  }

  Rng rng_;
  Builder b_;
  std::vector<Edge> made_;
};

}  // namespace d5
