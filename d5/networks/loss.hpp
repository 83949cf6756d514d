// SPDX-License-Identifier: Apache-2.0
// What a network is trained with. The loss reads the network's first output and a new input, the target; further
// outputs are auxiliary classifiers against the same target (Szegedy et al., 2016), which count less.
//   cross-entropy         scores N x C x ..., target the class of every sample or pixel, N x ... of i64
//   token-cross-entropy   scores N x T x V, target the word at every place, N x T of i64
//   mean-squared-error    mean (y - t)^2, target of the same shape
//   binary-cross-entropy  of logits y: mean (log(1 + e^y) - t y), target of the same shape in [0, 1]
// All are made of ONNX operators alone, so that a network with its loss can be written to a file.
#pragma once

#include <string>

#include "d5/graph/graph.hpp"

namespace d5 {

inline constexpr const char* loss_name = "loss";      // the value: a scalar, the first output of the graph
inline constexpr const char* target_name = "target";  // the input

struct LossOptions {
  bool keep_scores = false;  // the network's own outputs stay outputs: for an accuracy, at the price of their gradients
  double auxiliary_weight = 0.4;
};

// Outputs become the loss, the scores where they are kept, and the running statistics that were there.
Graph with_loss(Graph, const std::string& kind, const LossOptions& = {});

}  // namespace d5
