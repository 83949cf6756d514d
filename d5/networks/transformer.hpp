// SPDX-License-Identifier: Apache-2.0
// What transformers share (Vaswani et al., 2017). What is handed from layer to layer is N x T x width, T places of N
// samples: Dropout counts samples along the first axis. Linear layers see its rows, N T x width.
#pragma once

#include <string>
#include <vector>

#include "d5/networks/builder.hpp"

namespace d5 {

struct Heads {
  Index length = 0;  // places in a row
  Index heads = 1;
  bool causal = false;    // a place sees those before it and itself
  bool products = false;  // written as MatMul and Softmax instead of ONNX's Attention, which came with opset 23
};

// "operator" or "products", for the value `attention`.
Parameter attention_parameter();

Edge rows(Builder&, const std::string& name, const Edge& x);                  // N T x width
Edge places(Builder&, const std::string& name, const Edge& x, Index length);  // N x T x width

// Queries, keys and values are rows; so is the result. UsageError where the width is no multiple of the heads.
Edge attention(Builder&, const std::string& name, const Edge& q, const Edge& k, const Edge& v, const Heads&);

// The first `length` rows of a table of positions, as a parameter `name`.
Edge positions(Builder&, const std::string& name, Index rows, Index length, Index width);

}  // namespace d5
